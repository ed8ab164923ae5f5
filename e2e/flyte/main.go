// What Flyte's backend does with an MPI task, by Flyte's own plugin: make the MPIJob of a task's
// template, say in which phase the task is by looking at the live job, and write the job back
// without its finalizer, as typed clients do. Talks to no cluster: objects come and go as JSON.
//
//	flyte build TEMPLATE NAMESPACE NAME   prints the MPIJob
//	flyte phase TEMPLATE                  reads the live MPIJob, prints the task's phase
//	flyte finalize                        reads the live MPIJob, prints what Flyte would PUT
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	kubeflowv1 "github.com/kubeflow/training-operator/pkg/apis/kubeflow.org/v1"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/flyteorg/flyte/flyteidl/gen/pb-go/flyteidl/core"
	"github.com/flyteorg/flyte/flyteplugins/go/tasks/pluginmachinery"
	"github.com/flyteorg/flyte/flyteplugins/go/tasks/pluginmachinery/flytek8s/config"
	"github.com/flyteorg/flyte/flyteplugins/go/tasks/pluginmachinery/k8s"
	"github.com/flyteorg/flyte/flyteplugins/go/tasks/pluginmachinery/utils"
	_ "github.com/flyteorg/flyte/flyteplugins/go/tasks/plugins/k8s/kfoperators/mpi"
)

// The name that Flyte's propeller gives its finalizer.
const finalizer = "flyte.org/finalizer-k8s"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "flyte:", err)
		os.Exit(1)
	}
}

func run(words []string) error {
	switch {
	case len(words) == 4 && words[0] == "build":
		return build(words[1], words[2], words[3])
	case len(words) == 2 && words[0] == "phase":
		return phase(words[1])
	case len(words) == 1 && words[0] == "finalize":
		return finalize()
	}
	return fmt.Errorf("build TEMPLATE NAMESPACE NAME, phase TEMPLATE, or finalize; not %q", words)
}

// The plugin is private to its package; its registration is how propeller finds it too.
func plugin() (k8s.Plugin, error) {
	for _, entry := range pluginmachinery.PluginRegistry().GetK8sPlugins() {
		if entry.ID == "mpi" {
			return entry.Plugin, nil
		}
	}
	return nil, fmt.Errorf("no plugin registered itself as `mpi`")
}

func template(path string) (*core.TaskTemplate, error) {
	bytes, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	template := &core.TaskTemplate{}
	return template, proto.Unmarshal(bytes, template)
}

func build(path, namespace, name string) error {
	mpi, err := plugin()
	if err != nil {
		return err
	}
	template, err := template(path)
	if err != nil {
		return err
	}
	task := &execution{template: template, namespace: namespace, name: name}
	object, err := mpi.BuildResource(context.Background(), task)
	if err != nil {
		return err
	}
	// What propeller adds to whatever a plugin makes. The owner is left out: there is no
	// FlyteWorkflow here, and the garbage collector removes what belongs to nobody.
	defaults := config.GetK8sPluginConfig()
	object.SetNamespace(namespace)
	object.SetName(name)
	object.SetLabels(utils.UnionMaps(defaults.DefaultLabels, task.GetLabels()))
	object.SetAnnotations(utils.UnionMaps(defaults.DefaultAnnotations, task.GetAnnotations()))
	controllerutil.AddFinalizer(object, finalizer)
	return print(object)
}

func phase(path string) error {
	mpi, err := plugin()
	if err != nil {
		return err
	}
	template, err := template(path)
	if err != nil {
		return err
	}
	job, err := live()
	if err != nil {
		return err
	}
	task := &execution{template: template, namespace: job.Namespace, name: job.Name}
	info, err := mpi.GetTaskPhase(context.Background(), task, job)
	if err != nil {
		return err
	}
	said := map[string]any{"phase": info.Phase().String(), "reason": info.Reason()}
	if failure := info.Err(); failure != nil {
		said["code"] = failure.GetCode()
		said["message"] = failure.GetMessage()
	}
	return print(said)
}

func finalize() error {
	job, err := live()
	if err != nil {
		return err
	}
	controllerutil.RemoveFinalizer(job, finalizer)
	return print(job)
}

func live() (*kubeflowv1.MPIJob, error) {
	job := &kubeflowv1.MPIJob{}
	return job, json.NewDecoder(os.Stdin).Decode(job)
}

func print(value any) error {
	return json.NewEncoder(os.Stdout).Encode(value)
}
