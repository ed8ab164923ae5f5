// The execution of a task as propeller shows it to its plugins: everything that the MPI plugin asks
// for, with fixed answers, and a panic for what it has no business with.
package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flyteorg/flyte/flyteidl/gen/pb-go/flyteidl/core"
	"github.com/flyteorg/flyte/flyteplugins/go/tasks/pluginmachinery/catalog"
	pluginscore "github.com/flyteorg/flyte/flyteplugins/go/tasks/pluginmachinery/core"
	"github.com/flyteorg/flyte/flyteplugins/go/tasks/pluginmachinery/flytek8s"
	"github.com/flyteorg/flyte/flyteplugins/go/tasks/pluginmachinery/io"
	"github.com/flyteorg/flyte/flytestdlib/storage"
)

// The directory of a task's inputs and outputs in its containers.
const data = "/tmp/flyte"

type execution struct {
	template        *core.TaskTemplate
	namespace, name string
}

var (
	_ pluginscore.TaskExecutionContext  = &execution{}
	_ pluginscore.TaskExecutionMetadata = &execution{}
)

func (e *execution) TaskReader() pluginscore.TaskReader                       { return e }
func (e *execution) TaskExecutionMetadata() pluginscore.TaskExecutionMetadata { return e }
func (e *execution) InputReader() io.InputReader                              { return paths{} }
func (e *execution) OutputWriter() io.OutputWriter                            { return paths{} }
func (e *execution) PluginStateReader() pluginscore.PluginStateReader         { return noState{} }
func (e *execution) DataStore() *storage.DataStore                            { return nil }

func (e *execution) ResourceManager() pluginscore.ResourceManager     { panic("not for MPI") }
func (e *execution) SecretManager() pluginscore.SecretManager         { panic("not for MPI") }
func (e *execution) TaskRefreshIndicator() pluginscore.SignalAsync    { panic("not for MPI") }
func (e *execution) PluginStateWriter() pluginscore.PluginStateWriter { panic("not for MPI") }
func (e *execution) Catalog() catalog.AsyncClient                     { panic("not for MPI") }
func (e *execution) EventsRecorder() pluginscore.EventsRecorder       { panic("not for MPI") }

func (e *execution) Path(context.Context) (storage.DataReference, error) { return "", nil }
func (e *execution) Read(context.Context) (*core.TaskTemplate, error)    { return e.template, nil }

func (e *execution) GetOwnerID() types.NamespacedName {
	return types.NamespacedName{Namespace: e.namespace, Name: "workflow"}
}
func (e *execution) GetTaskExecutionID() pluginscore.TaskExecutionID { return executionID{e} }
func (e *execution) GetNamespace() string                            { return e.namespace }
func (e *execution) GetOwnerReference() metav1.OwnerReference        { return metav1.OwnerReference{} }
func (e *execution) GetOverrides() pluginscore.TaskOverrides         { return overrides{e} }
func (e *execution) GetLabels() map[string]string {
	return map[string]string{"execution-id": e.name, "project": "muster", "domain": "test"}
}
func (e *execution) GetMaxAttempts() uint32                     { return 1 }
func (e *execution) GetAnnotations() map[string]string          { return nil }
func (e *execution) GetK8sServiceAccount() string               { return "default" }
func (e *execution) GetSecurityContext() core.SecurityContext   { return core.SecurityContext{} }
func (e *execution) IsInterruptible() bool                      { return false }
func (e *execution) GetInterruptibleFailureThreshold() int32    { return 0 }
func (e *execution) GetEnvironmentVariables() map[string]string { return nil }
func (e *execution) GetConsoleURL() string                      { return "" }
func (e *execution) GetPlatformResources() *corev1.ResourceRequirements {
	return &corev1.ResourceRequirements{}
}

type executionID struct{ *execution }

func (id executionID) GetGeneratedName() string                      { return id.name }
func (id executionID) GetGeneratedNameWith(int, int) (string, error) { return id.name, nil }
func (id executionID) GetUniqueNodeID() string                       { return "n0" }
func (id executionID) GetID() core.TaskExecutionIdentifier {
	return core.TaskExecutionIdentifier{
		NodeExecutionId: &core.NodeExecutionIdentifier{
			NodeId: "n0",
			ExecutionId: &core.WorkflowExecutionIdentifier{
				Project: "muster", Domain: "test", Name: id.name,
			},
		},
	}
}

// What somebody may say for one execution; propeller fills it with the task's own resources.
type overrides struct{ *execution }

func (o overrides) GetResources() *corev1.ResourceRequirements {
	resources, err := flytek8s.ToK8sResourceRequirements(o.template.GetContainer().GetResources())
	if err != nil {
		panic(err)
	}
	return resources
}
func (o overrides) GetExtendedResources() *core.ExtendedResources { return nil }
func (o overrides) GetContainerImage() string                     { return "" }
func (o overrides) GetPodTemplate() *core.K8SPod                  { return nil }
func (o overrides) GetConfig() *corev1.ConfigMap                  { return nil }

type noState struct{}

func (noState) GetStateVersion() uint8 { return 0 }
func (noState) Get(any) (uint8, error) { return 0, nil }

type paths struct{}

func (paths) GetInputPrefixPath() storage.DataReference           { return data }
func (paths) GetInputPath() storage.DataReference                 { return data + "/inputs.pb" }
func (paths) Get(context.Context) (*core.LiteralMap, error)       { return &core.LiteralMap{}, nil }
func (paths) GetRawOutputPrefix() storage.DataReference           { return data + "/raw" }
func (paths) GetPreviousCheckpointsPrefix() storage.DataReference { return "" }
func (paths) GetCheckpointPrefix() storage.DataReference          { return data + "/checkpoint" }
func (paths) GetOutputPrefixPath() storage.DataReference          { return data + "/out" }
func (paths) GetOutputPath() storage.DataReference                { return data + "/out/outputs.pb" }
func (paths) GetDeckPath() storage.DataReference                  { return data + "/out/deck.html" }
func (paths) GetErrorPath() storage.DataReference                 { return data + "/out/error.pb" }
func (paths) Put(context.Context, io.OutputReader) error          { panic("not for MPI") }
