// Package s3 has the two codes that Flyte's storage library looks for.
package s3

const (
	ErrCodeBucketAlreadyOwnedByYou = "BucketAlreadyOwnedByYou"
	ErrCodeNoSuchBucket            = "NoSuchBucket"
)
