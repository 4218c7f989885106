// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/client/clientset/versioned"
	"d3os.com/d3os-operator/client/clientset/versioned/fake"
	"d3os.com/d3os-operator/client/informers/externalversions"
)

// A program lists the DataServices of a namespace from the cache of an informer, and prints their phases. With a real cluster the clients come from
// versioned.NewForConfig.
func Example() {
	var clients versioned.Interface = fake.NewSimpleClientset(
		&dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "platform"}, Status: dsv1.DataServiceStatus{Phase: dsv1.PhaseRunning}},
		&dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "platform"}},
	)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	factory := externalversions.NewSharedInformerFactoryWithOptions(clients, 0, externalversions.WithNamespace("shop"))
	lister := factory.DataService().V1().DataServices().Lister()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())

	services, err := lister.DataServices("shop").List(labels.Everything())
	if err != nil {
		fmt.Println("list the DataServices of namespace shop:", err)
		return
	}
	for _, ds := range services {
		fmt.Println(ds.Name, "is", ds.Status.Phase)
	}
	// Output: platform is Running
}
