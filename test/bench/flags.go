// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// servicesPerNode is the number of DataServices that fit into the memory of a simulated node, with a reserve.
const servicesPerNode = 15

type flags struct {
	runs int
	// clusters is the number of RedisClusters in the section middleware, each with 6 pods.
	clusters int
	// large, pods and small set the size of the section tenants: the number of RedisClusters, the pods of each, and the DataServices next
	// to them.
	large, pods, small int
	only               []string
	sizes              []int // numbers of DataServices in the sections load and against, ascending
	// against is the commit that the section `against` compares with. turns is the number of measurements of each build.
	// If bounds is false, the section prints the ratios, and does not fail because of them.
	against string
	turns   int
	bounds  bool
}

// most returns the maximum number of DataServices.
func (f flags) most() int {
	most := 0
	for _, name := range f.only {
		switch name {
		case "load", "against":
			most = max(most, f.sizes[len(f.sizes)-1])
		case "middleware":
			most = max(most, middlewareServices)
		case "status":
			most = max(most, platforms)
		case "tenants":
			most = max(most, f.small)
		}
	}
	return most
}

func parseFlags(args []string) (flags, error) {
	var f flags
	var names, usual []string
	for _, s := range sections {
		names = append(names, s.name)
		if !s.asked {
			usual = append(usual, s.name)
		}
	}
	set := flag.NewFlagSet("bench", flag.ContinueOnError)
	set.IntVar(&f.runs, "runs", 3, "how often what concerns one DataService is repeated")
	set.IntVar(&f.clusters, "clusters", 20, "how many RedisClusters the section middleware has")
	set.IntVar(&f.large, "large", 8, "how many large RedisClusters the section tenants has")
	set.IntVar(&f.pods, "pods", 300, "how many pods each of them has")
	set.IntVar(&f.small, "small", 100, "how many small DataServices the section tenants has")
	only := set.String("only", "", "comma-separated sections to run: "+strings.Join(names, ", ")+" (default: all but middleware, tenants, load and against)")
	set.StringVar(&f.against, "against", "", "a commit: run only the section against, beside the operator of that commit")
	set.IntVar(&f.turns, "turns", 2, "how often the section against measures each build")
	set.BoolVar(&f.bounds, "bounds", true, "fail if a ratio of the section against is outside its bound")
	set.Func("sizes", "comma-separated numbers of DataServices of the section load (default: 100); the section against uses the largest (default: 200)", func(list string) (err error) {
		f.sizes, err = parseSizes(list)
		return err
	})
	if err := set.Parse(args); err != nil {
		return f, err
	}
	if set.NArg() > 0 {
		return f, fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	if min(f.runs, f.clusters, f.large, f.pods, f.small, f.turns) < 1 {
		return f, errors.New("-runs, -clusters, -large, -pods, -small and -turns must be at least 1")
	}
	f.only = usual
	switch {
	case f.against != "":
		f.only = []string{"against"}
	case *only != "":
		f.only = strings.Split(*only, ",")
	}
	if f.sizes == nil {
		f.sizes = []int{100}
		if f.against != "" {
			f.sizes = []int{200}
		}
	}
	for _, name := range f.only {
		if !slices.Contains(names, name) {
			return f, fmt.Errorf("there is no section %q: try %s", name, strings.Join(names, ", "))
		}
	}
	return f, nil
}

func parseSizes(list string) (sizes []int, err error) {
	const least = 2 // the section load changes one DataService continuously, and measures others
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < least {
			return nil, fmt.Errorf("%q is no valid number of DataServices: want at least %d", text, least)
		}
		sizes = append(sizes, n)
	}
	slices.Sort(sizes)
	return slices.Compact(sizes), nil
}
