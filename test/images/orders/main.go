// Command orders replaces the application of a user (config/samples/application.yaml):
//
//	orders   waits until programs listen at CACHE_ADDRESS and at API_URL, then listens on ports 8080
//	         and 9090, and appends a line for each request to LOG_FILE
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	addresses := []string{os.Getenv("CACHE_ADDRESS")}
	if api, err := url.Parse(os.Getenv("API_URL")); err == nil {
		addresses = append(addresses, api.Host)
	}
	for _, address := range addresses {
		if err := reach(ctx, address); err != nil {
			return err
		}
	}
	journal := io.Discard
	if path := os.Getenv("LOG_FILE"); path != "" {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		defer file.Close()
		journal = file
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(journal, "%s %s\n", r.Method, r.URL.Path)
		fmt.Fprintln(w, "orders")
	})
	failed := make(chan error, 2)
	for _, port := range []string{":8080", ":9090"} {
		server := &http.Server{Addr: port, Handler: handler, ReadHeaderTimeout: 10 * time.Second}
		go func() { failed <- server.ListenAndServe() }()
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// reach waits until a program listens at the address. It returns immediately if the address is empty.
func reach(ctx context.Context, address string) error {
	if address == "" {
		return nil
	}
	for {
		connection, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			return connection.Close()
		}
		log.Printf("waiting: %v", err)
		select {
		case <-ctx.Done():
			return fmt.Errorf("reach %s: %w", address, err)
		case <-time.After(time.Second):
		}
	}
}
