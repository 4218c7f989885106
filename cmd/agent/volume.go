// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"d3os.com/d3os-operator/internal/contract"
)

// reportVolume serves the used and total space of a volume over HTTP until the container ends. It writes nothing, so it also works on a
// full volume.
func reportVolume(arguments []string) int {
	flags := flag.NewFlagSet("agent volume", flag.ContinueOnError)
	volume := flags.String("volume", "", "folder of the volume")
	listen := flags.String("listen", ":"+contract.VolumePort, "address at which the use of the volume is served")
	if err := flags.Parse(arguments); err != nil || flags.NArg() > 0 || *volume == "" {
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", *listen)
	if err != nil {
		return code(fmt.Errorf("listen at %s: %w", *listen, err))
	}
	server := &http.Server{Handler: volumeHandler(*volume), ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() }) // the error does not matter, because the program ends
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return code(fmt.Errorf("serve the use of %s: %w", *volume, err))
	}
	return 0
}

// volumeHandler serves the used and total space of a volume at contract.PathState, and answers probes at /livez.
func volumeHandler(volume string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET "+contract.PathState, func(w http.ResponseWriter, _ *http.Request) {
		use, err := measure(volume)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(use) // fails if the client has disconnected
	})
	return mux
}

// measure returns the used and total space of a folder's file system. Blocks that only root may use count as used: the server cannot write
// to them.
func measure(volume string) (contract.Volume, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(volume, &fs); err != nil {
		return contract.Volume{}, fmt.Errorf("read the use of %s: %w", volume, err)
	}
	block := uint64(fs.Bsize)                                                                                     //nolint:gosec // a block has a positive size
	return contract.Volume{Used: int64((fs.Blocks - fs.Bavail) * block), Capacity: int64(fs.Blocks * block)}, nil //nolint:gosec // a file system has less than 8 EiB
}
