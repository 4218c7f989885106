// What runs inside pods. It is a module of its own, so that nothing of it gets into the operator.
module d3os.com/d3os-operator/cmd/agent

go 1.26.0
