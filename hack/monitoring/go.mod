// The dashboard's library is nothing that the operator should depend on.
module d3os.com/d3os-operator/hack/monitoring

go 1.26.0

require github.com/grafana/grafana-foundation-sdk/go v0.0.12
