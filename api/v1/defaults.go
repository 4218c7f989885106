// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// defaultStorageSize is the default of Storage.Size in the CRD.
const defaultStorageSize = "10Gi"

// defaultRedisPods is the default of Redis.Replicas in the CRD.
const defaultRedisPods = 6

// The defaults of MongoDB.Replicas, Version and Database in the CRD.
const (
	defaultMongoDBMembers  = 3
	defaultMongoDBVersion  = "8.0.12"
	defaultMongoDBDatabase = "dataservice"
)

// SetDefaults sets the defaults of the CRD, as the API server does, for a DataService that
// was not read from an API server. A test compares the two results.
func SetDefaults(ds *DataService) {
	spec := &ds.Spec
	orDefault(&spec.Rollout.Order, OrderDependency)
	if m := spec.MySQL; m != nil {
		setStorage(&m.Storage.Storage)
		setContainerFields(&m.ContainerFields)
		if r := m.Replication; r != nil {
			orDefault(&r.WhenAlone, "Write")
			orDefault(&r.Failover, "Automatic")
			orDefault(&r.MaxLag, "10s")
		}
	}
	if e := spec.Etcd; e != nil {
		setStorage(&e.Storage.Storage)
	}
	if m := spec.MongoDB; m != nil {
		setStorage(&m.Storage)
		orDefault(&m.Replicas, defaultMongoDBMembers)
		orDefault(&m.Version, defaultMongoDBVersion)
		orDefault(&m.Database, defaultMongoDBDatabase)
	}
	if r := spec.Redis; r != nil {
		setStorage(&r.Storage.Storage)
		orDefault(&r.Replicas, ptr.To[int32](defaultRedisPods))
	}
	for _, m := range []*Middleware{spec.UUC, spec.Eureka} {
		if m != nil {
			setContainerFields(&m.ContainerFields)
		}
	}
	for _, s := range []*Service{spec.APIManager, spec.Auth, spec.DSAdapter, spec.ESAdapter, spec.TRDAdapter, spec.Proxy} {
		if s != nil {
			setService(s)
		}
	}
	for _, p := range []*Published{spec.GatewayMaster, spec.GatewayWeb, spec.Web} {
		if p != nil {
			setService(&p.Service)
			setIngress(p.Ingress)
			setHTTPRoute(p.HTTPRoute)
		}
	}
	for i := range spec.AdditionalServices {
		s := &spec.AdditionalServices[i]
		orDefault(&s.Kind, "Deployment")
		setContainerFields(&s.ContainerFields)
		setServiceFields(&s.ServiceFields)
		setIngress(s.Ingress)
		setHTTPRoute(s.HTTPRoute)
	}
	for i := range spec.CronJobs {
		setCronJob(&spec.CronJobs[i])
	}
}

func setStorage(s *Storage) {
	if s.Size.IsZero() {
		s.Size = resource.MustParse(defaultStorageSize)
	}
	orDefault(&s.Retention, RetentionRetain)
}

func setContainerFields(c *ContainerFields) {
	orDefault(&c.ImagePullPolicy, corev1.PullIfNotPresent)
}

func setService(s *Service) {
	setContainerFields(&s.ContainerFields)
	setServiceFields(&s.ServiceFields)
}

func setServiceFields(s *ServiceFields) {
	orDefault(&s.SessionAffinity, corev1.ServiceAffinityNone)
	orDefault(&s.Strategy, "RollingUpdate")
	if s.Autoscaling != nil {
		orDefault(&s.Autoscaling.Min, 1)
	}
}

func setIngress(i *Ingress) {
	if i != nil {
		orDefault(&i.Path, "/")
	}
}

func setHTTPRoute(r *HTTPRoute) {
	if r != nil {
		orDefault(&r.Path, "/")
	}
}

func setCronJob(c *CronJob) {
	setContainerFields(&c.ContainerFields)
	orDefault(&c.ConcurrencyPolicy, "Forbid")
	orDefault(&c.SuccessfulJobsHistoryLimit, ptr.To[int32](3))
	orDefault(&c.FailedJobsHistoryLimit, ptr.To[int32](1))
	orDefault(&c.BackoffLimit, ptr.To[int32](6))
	orDefault(&c.RestartPolicy, corev1.RestartPolicyOnFailure)
}

// orDefault sets the field to the default if the field is zero.
func orDefault[T comparable](field *T, value T) {
	var none T
	if *field == none {
		*field = value
	}
}
