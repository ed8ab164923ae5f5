// Command coscheduling is the scheduler of Kubernetes with the coscheduling
// plugin, or, started as "controller", the controller that keeps the status of
// its PodGroups.
//
// The published scheduler links every plugin of its repository. Most of them
// need modules of their own, and no test needs the plugins.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	_ "sigs.k8s.io/scheduler-plugins/apis/config/scheme"
	controller "sigs.k8s.io/scheduler-plugins/cmd/controller/app"
	"sigs.k8s.io/scheduler-plugins/pkg/coscheduling"
)

func main() {
	if filepath.Base(os.Args[0]) == "controller" {
		os.Exit(runController())
	}
	plugin := scheduler.WithPlugin(coscheduling.Name, coscheduling.New)
	os.Exit(cli.Run(scheduler.NewSchedulerCommand(plugin)))
}

func runController() int {
	options := controller.NewServerRunOptions()
	pflag.CommandLine.AddGoFlagSet(flag.CommandLine)
	pflag.Parse()
	if err := controller.Run(options); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
