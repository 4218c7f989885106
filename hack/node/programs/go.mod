// Programs of the test node itself. A module of its own: no part of the operator.
module d3os.com/d3os-operator/hack/node/programs

go 1.26.0
