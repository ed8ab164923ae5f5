// Package s3 names a kind of store that is not here, and its settings.
package s3

const (
	Kind              = "s3"
	ConfigAccessKeyID = "access_key_id"
	ConfigAuthType    = "auth_type"
	ConfigDisableSSL  = "disable_ssl"
	ConfigEndpoint    = "endpoint"
	ConfigRegion      = "region"
	ConfigSecretKey   = "secret_key"
)
