// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"fmt"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// Declaration holds the fields of one component in the spec. Fields is nil if the spec does not declare the component.
type Declaration struct {
	// Fields points to the component's struct in the API, which contains all fields of the component.
	Fields any

	Name      string // name of its objects; empty for the default
	DependsOn []dsv1.ComponentName

	// The following are parts of Fields; nil if the API's type lacks the part.
	Workload   *dsv1.Workload
	Middleware *dsv1.Middleware
	MySQL      *dsv1.MySQL
	Redis      *dsv1.Redis
	Etcd       *dsv1.Etcd
	MongoDB    *dsv1.MongoDB
	ThirdParty *dsv1.ThirdParty
	Service    *dsv1.ServiceFields
	Ingress    *dsv1.Ingress
	HTTPRoute  *dsv1.HTTPRoute
	CronJob    *dsv1.CronJob
}

// IsResource reports whether the component is redis, etcd or mongodb. Each is a resource of another kind, unless it
// runs outside of the cluster.
func (d *Declaration) IsResource() bool { return d.Redis != nil || d.Etcd != nil || d.MongoDB != nil }

// PodTemplate returns the podTemplate for the component's pods, or nil.
func (d *Declaration) PodTemplate() *dsv1.Object {
	if d.CronJob != nil {
		return d.CronJob.PodTemplate
	}
	if d.MongoDB != nil {
		return d.MongoDB.PodTemplate
	}
	return d.Workload.PodTemplate
}

// BackupTemplate returns the podTemplate for backup pods, or nil.
func (d *Declaration) BackupTemplate() *dsv1.Object {
	if d.MySQL == nil || d.MySQL.Backup == nil || d.MySQL.Backup.PodTemplate == nil {
		return nil
	}
	return &dsv1.Object{JSON: d.MySQL.Backup.PodTemplate.JSON}
}

// Image returns the image from the spec, or "".
func (d *Declaration) Image() string {
	if d.CronJob != nil {
		return d.CronJob.Image
	}
	return d.Workload.Image
}

func ofService(s *dsv1.Service) Declaration {
	if s == nil {
		return Declaration{}
	}
	return Declaration{Fields: s, Name: s.Name, DependsOn: s.DependsOn, Workload: &s.Workload, Service: &s.ServiceFields}
}

func ofPublished(p *dsv1.Published) Declaration {
	if p == nil {
		return Declaration{}
	}
	d := ofService(&p.Service)
	d.Fields, d.Ingress, d.HTTPRoute = p, p.Ingress, p.HTTPRoute
	return d
}

func ofMiddleware(m *dsv1.Middleware) Declaration {
	if m == nil {
		return Declaration{}
	}
	return Declaration{Fields: m, Name: m.Name, DependsOn: m.DependsOn, Workload: &m.Workload, Middleware: m, ThirdParty: m.ThirdParty}
}

func ofMySQL(m *dsv1.MySQL) Declaration {
	if m == nil {
		return Declaration{}
	}
	d := ofMiddleware(&m.Middleware)
	d.Fields, d.MySQL = m, m
	return d
}

// probe returns the workload of the probe that checks a component outside of the cluster. The workload has only the
// scheduling fields and the annotations of redis, etcd or mongodb.
func probe(scheduling dsv1.SchedulingFields, annotations map[string]string) *dsv1.Workload {
	return &dsv1.Workload{SchedulingFields: scheduling, PodFields: dsv1.PodFields{Annotations: annotations}}
}

func ofEtcd(e *dsv1.Etcd) Declaration {
	if e == nil {
		return Declaration{}
	}
	d := Declaration{Fields: e, Name: e.Name, DependsOn: e.DependsOn, Workload: probe(e.SchedulingFields, e.Annotations), Etcd: e}
	if tp := e.ThirdParty; tp != nil {
		d.ThirdParty = &dsv1.ThirdParty{URL: tp.URL, CheckCMD: tp.CheckCMD}
	}
	return d
}

func ofMongoDB(m *dsv1.MongoDB) Declaration {
	if m == nil {
		return Declaration{}
	}
	d := Declaration{Fields: m, Name: m.Name, DependsOn: m.DependsOn, Workload: probe(m.SchedulingFields, m.Annotations), MongoDB: m}
	if tp := m.ThirdParty; tp != nil {
		d.ThirdParty = &dsv1.ThirdParty{URL: tp.URL, CheckCMD: tp.CheckCMD, SecretRef: tp.SecretRef}
	}
	return d
}

func ofRedis(r *dsv1.Redis) Declaration {
	if r == nil {
		return Declaration{}
	}
	d := Declaration{Fields: r, Name: r.Name, DependsOn: r.DependsOn, Workload: probe(r.SchedulingFields, r.Annotations), Redis: r}
	if tp := r.ThirdParty; tp != nil {
		d.ThirdParty = &dsv1.ThirdParty{URL: tp.URL, CheckCMD: tp.CheckCMD, Username: tp.Username, Password: tp.Password, SecretRef: tp.SecretRef}
	}
	return d
}

// userDeclared returns the components that the user declares in addition to those of the product.
func userDeclared(spec *dsv1.DataServiceSpec) []Component {
	var found []Component
	for i := range spec.AdditionalServices {
		s := &spec.AdditionalServices[i]
		found = append(found, Component{
			Name: dsv1.ComponentName(s.Name), ObjectName: s.Name, Chart: ChartMicroservice, Kind: Kind(s.Kind),
			Path: fmt.Sprintf("spec.additionalServices[%s]", s.Name),
			Declaration: Declaration{
				Fields: s, Name: s.Name, DependsOn: s.DependsOn, Workload: &s.Workload, Service: &s.ServiceFields,
				Ingress: s.Ingress, HTTPRoute: s.HTTPRoute,
			},
		})
	}
	for i := range spec.CronJobs {
		c := &spec.CronJobs[i]
		found = append(found, Component{
			Name: dsv1.ComponentName(c.Name), ObjectName: c.Name, Chart: ChartCronJob, Kind: CronJob,
			Path:        fmt.Sprintf("spec.cronJobs[%s]", c.Name),
			Declaration: Declaration{Fields: c, Name: c.Name, DependsOn: c.DependsOn, CronJob: c},
		})
	}
	return found
}
