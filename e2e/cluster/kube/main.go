// Command kube is every Kubernetes program that a test cluster needs, in one
// binary. The first argument (or the name it was started by) picks the program;
// the rest are that program's own flags.
//
// One binary because the programs share nearly all of their packages: linked
// apart they would take eight times the link time and the space.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	_ "time/tzdata"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// A program runs with os.Args already set to its own name and flags, and
// returns the exit code.
var programs = map[string]func() int{
	"etcd":                    func() int { etcdmain.Main(os.Args); return 0 },
	"kube-apiserver":          component(apiserver.NewAPIServerCommand),
	"kube-controller-manager": component(controllermanager.NewControllerManagerCommand),
	"kube-scheduler":          component(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kube-proxy":              component(proxy.NewProxyCommand),
	"kubelet":                 component(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
	"kubectl":                 runKubectl,
}

func main() {
	if filepath.Base(os.Args[0]) == "kube" {
		os.Args = os.Args[1:]
	}
	if len(os.Args) > 0 {
		if run, ok := programs[filepath.Base(os.Args[0])]; ok {
			os.Exit(run())
		}
	}
	names := make([]string, 0, len(programs))
	for name := range programs {
		names = append(names, name)
	}
	sort.Strings(names)
	fmt.Fprintln(os.Stderr, "usage: kube "+strings.Join(names, "|")+" [flags]")
	os.Exit(2)
}

func component(build func() *cobra.Command) func() int {
	return func() int { return cli.Run(build()) }
}

func runKubectl() int {
	// kubectl reads its verbosity before cobra parses flags; an unreadable level
	// only means the default one.
	_, _ = logs.GlogSetter(kubectl.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err) // prints as kubectl does, and exits
	}
	return 0
}
