// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/kinds/dataservice/credentials"
	"d3os.com/d3os-operator/internal/kinds/dataservice/plan"
)

// makePlan does what a reconciliation does before it looks at the cluster; it takes what
// Secrets it knows from the keeper and finds none in the cluster.
func makePlan(planner *plan.Planner, keeper *credentials.Keeper, ds *dsv1.DataService) (*credentials.Plan, *plan.Plan, error) {
	graph, err := planner.Graph(ds)
	if err != nil {
		return nil, nil, err
	}
	secrets, err := keeper.Plan(ds, graph, func(string, string) (*unstructured.Unstructured, error) { return nil, nil })
	if err != nil {
		return nil, nil, err
	}
	p, err := planner.Make(ds, graph, secrets.Credentials)
	return secrets, p, err
}
