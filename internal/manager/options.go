// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap/zapcore"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	etcdserver "d3os.com/d3os-operator/internal/etcd/server"
	"d3os.com/d3os-operator/internal/mysql/cluster"
	"d3os.com/d3os-operator/internal/platform/values"
	"d3os.com/d3os-operator/internal/redis/server"
	"d3os.com/d3os-operator/internal/version"
)

// Options are the settings of the operator's process. The help texts of the flags describe the fields that have no comment here.
type Options struct {
	WatchNamespaces         []string
	MaxConcurrentReconciles int
	// MaxRollouts limits the number of DataServices that a new version of the operator changes at once; 0 means no limit.
	MaxRollouts  int
	ResyncPeriod time.Duration
	// MinReady is the time for which a replaced pod of a RedisCluster, an EtcdCluster or a MySQLCluster must be ready without a restart
	// before the next pod is replaced.
	MinReady time.Duration

	LeaderElection          bool
	LeaderElectionNamespace string
	LeaseDuration           time.Duration
	RenewDeadline           time.Duration
	RetryPeriod             time.Duration

	MetricsBindAddress string
	MetricsSecure      bool
	ProbeBindAddress   string
	PprofBindAddress   string

	// Namespace is the namespace of the operator's own pods; empty outside of a pod.
	Namespace string
	// PodName is the name of the operator's own pod; empty outside of a pod.
	PodName string
	// Images replace the charts' default images. They are read from the variables RELATED_IMAGE_*.
	Images map[string]string
	// SkipNameValidation allows several managers in one process, for tests.
	SkipNameValidation bool
	// RetryRefused is the wait before the next attempt after an admission policy or a storage class has refused a write. It is needed
	// because no event reports a change of the policy or class. Default: one minute for a spec, five minutes for the size of a volume.
	RetryRefused time.Duration
	// OptionalPoll is the interval between checks for the CRDs of config/compat. Default: one minute.
	OptionalPoll time.Duration
	// RightsPoll is the interval between checks for missing rights in the namespaces of --watch-namespaces. Default: 15 seconds.
	RightsPoll time.Duration
	// Redis configures the connections to the servers of RedisClusters. The zero value is for production.
	Redis server.Options
	// Etcd configures the connections to the members of EtcdClusters. The zero value is for production.
	Etcd etcdserver.Options
	// MySQL configures the connections to the members of MySQLClusters. The zero value is for production.
	MySQL cluster.Options
	// Version is the operator's own version. The operator writes it to an annotation of its objects.
	Version string

	Log zap.Options
	// PrintVersion makes the process print its version and exit, instead of running the operator.
	PrintVersion bool
}

// ParseOptions reads the command line and the environment.
func ParseOptions(args []string) (Options, error) {
	o := Options{
		Images:  values.RelatedImages(os.Environ()),
		Version: version.Version,
		// NetworkPolicies use this namespace to admit the operator's pods.
		Namespace: os.Getenv("POD_NAMESPACE"),
		PodName:   os.Getenv("POD_NAME"),
		// OLM sets the watched namespaces in WATCH_NAMESPACE. Empty means all namespaces.
		WatchNamespaces: names(os.Getenv("WATCH_NAMESPACE")),
	}
	// OLM v0 passes variables of the Subscription to the operator, but not arguments.
	if given := os.Getenv("MAX_ROLLOUTS"); given != "" {
		var err error
		if o.MaxRollouts, err = count(given); err != nil {
			return o, fmt.Errorf("read MAX_ROLLOUTS: %w", err)
		}
	}
	o.MinReady = time.Minute
	if given := os.Getenv("MIN_READY"); given != "" {
		var err error
		if o.MinReady, err = time.ParseDuration(given); err != nil {
			return o, fmt.Errorf("read MIN_READY: %w", err)
		}
	}
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	flags.Func("watch-namespaces", "comma-separated namespaces to watch (default: $WATCH_NAMESPACE; empty: all)", func(value string) error {
		o.WatchNamespaces = names(value)
		return nil
	})
	flags.IntVar(&o.MaxConcurrentReconciles, "max-concurrent-reconciles", 8, "maximum number of DataServices that are reconciled in parallel")
	flags.Func("max-rollouts", "maximum number of DataServices that a new version of the operator changes in parallel; 0 for no limit (default: $MAX_ROLLOUTS, or 0)", func(value string) (err error) {
		o.MaxRollouts, err = count(value)
		return err
	})
	flags.DurationVar(&o.MinReady, "min-ready", o.MinReady, "how long a replaced pod of a RedisCluster, an EtcdCluster or a MySQLCluster must have been ready without a restart before the next one is replaced; 0 for no wait (default: $MIN_READY, or 1m)")
	flags.DurationVar(&o.ResyncPeriod, "resync-period", 10*time.Hour, "reconcile every resource this often even if nothing changed; reads the cache only")
	flags.BoolVar(&o.LeaderElection, "leader-elect", false, "elect a leader, so that one of several replicas is active")
	flags.StringVar(&o.LeaderElectionNamespace, "leader-elect-namespace", "", "namespace of the Lease (default: that of the pod)")
	flags.DurationVar(&o.LeaseDuration, "leader-elect-lease-duration", 15*time.Second, "time within which another replica takes over from a leader that no longer renews the Lease")
	flags.DurationVar(&o.RenewDeadline, "leader-elect-renew-deadline", 8*time.Second, "how long a leader tries to renew before it gives up")
	flags.DurationVar(&o.RetryPeriod, "leader-elect-retry-period", 750*time.Millisecond, "time between two renewals of the Lease; a standby replica reads the Lease after 1 to 2.2 times this duration")
	flags.StringVar(&o.MetricsBindAddress, "metrics-bind-address", "0", "address of the metrics, such as :8443; 0 for none")
	flags.BoolVar(&o.MetricsSecure, "metrics-secure", true, "serve metrics over HTTPS to clients that the API server authenticates and authorizes")
	flags.StringVar(&o.ProbeBindAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz; 0 for none")
	flags.StringVar(&o.PprofBindAddress, "pprof-bind-address", "0", "address of the profiler, such as 127.0.0.1:6060; 0 for none")
	o.Log.BindFlags(flags)
	flags.Func("v", "verbosity of the log: 0 for events, 1 and more for details; the same as --zap-log-level: the last of these two flags counts (default: 0)", func(value string) error {
		verbosity, err := count(value)
		o.Log.Level = zapcore.Level(-min(verbosity, math.MaxInt8)) //nolint:gosec // 0 to 127
		return err
	})
	config.RegisterFlags(flags) // --kubeconfig; the client's configuration reads this flag
	flags.BoolVar(&o.PrintVersion, "version", false, "print the version and exit")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.MinReady < 0 {
		return o, fmt.Errorf("--min-ready: %s is less than 0", o.MinReady)
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return o, nil
}

// count parses a number that is not negative.
func count(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err == nil && n < 0 {
		err = fmt.Errorf("%d is less than 0", n)
	}
	return n, err
}

// names splits a comma-separated list.
func names(list string) (found []string) {
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" {
			found = append(found, name)
		}
	}
	return found
}
