// The test programs that stand in for the platform's parts on a real node. A module of its own, so
// that what they need never reaches the operator's go.mod.
module d3os.com/d3os-operator/test/images

go 1.26.0

require (
	github.com/go-sql-driver/mysql v1.10.1
	go.yaml.in/yaml/v3 v3.0.6
)

require filippo.io/edwards25519 v1.2.0 // indirect
