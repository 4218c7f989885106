// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// Observed returns why the operator has not seen a generation of a DataService, or nil.
func Observed(ds *dsv1.DataService, generation int64) error {
	switch {
	case ds == nil:
		return errors.New("the DataService is not there")
	case ds.Generation < generation || ds.Status.ObservedGeneration < generation:
		return fmt.Errorf("%s has not observed generation %d", ds.Name, generation)
	}
	return nil
}

// IsReady returns why a DataService is not ready in a generation, or nil.
func IsReady(ds *dsv1.DataService, generation int64) error {
	if err := Observed(ds, generation); err != nil {
		return err
	}
	if err := HasCondition(ds, dsv1.ConditionReady, metav1.ConditionTrue, dsv1.ReasonAllReady); err != nil {
		return err
	}
	if ds.Status.Phase != dsv1.PhaseRunning {
		return fmt.Errorf("ready, but the phase is %s: %s", ds.Status.Phase, ds.Status.Message)
	}
	for _, c := range ds.Status.Components {
		if c.Ready < c.Desired {
			return fmt.Errorf("ready, but %s has %d of %d pods", c.Name, c.Ready, c.Desired)
		}
	}
	return nil
}

// HasCondition returns how a condition differs from what is asked for, or nil.
func HasCondition(ds *dsv1.DataService, kind string, status metav1.ConditionStatus, reason string, words ...string) error {
	if ds == nil {
		return errors.New("the DataService is not there")
	}
	c := meta.FindStatusCondition(ds.Status.Conditions, kind)
	if c == nil {
		return fmt.Errorf("no condition %s; phase %q, message %q", kind, ds.Status.Phase, ds.Status.Message)
	}
	if c.Status != status || reason != "" && c.Reason != reason {
		return fmt.Errorf("condition %s is %s %s: %s; phase %q", kind, c.Status, c.Reason, c.Message, ds.Status.Phase)
	}
	return Mentions(c.Message, words...)
}

// Mentions returns what a text lacks, or nil.
func Mentions(text string, words ...string) error {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return fmt.Errorf("%q does not mention %q", text, word)
		}
	}
	return nil
}
