// Nothing is built from this module. It pins the gang schedulers of others whose
// PodGroups the tests install.
module muster.dev/e2e/gangs

go 1.26.0

require (
	sigs.k8s.io/scheduler-plugins v0.34.7
	volcano.sh/volcano v1.14.1
)
