// Package awserr has the one type by which Flyte's storage library knows errors of S3.
package awserr

type Error interface {
	error
	Code() string
}
