// What the agent and its callers share. A module of its own without requirements, so that neither side gets the other's dependencies.
module d3os.com/d3os-operator/internal/contract

go 1.26.0
