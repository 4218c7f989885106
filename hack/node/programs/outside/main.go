// Command outside stands in for the internet: it answers every request over HTTPS with 200.
//
//	outside ADDRESS CERTIFICATE KEY
package main

import (
	"fmt"
	"log"
	"net/http"
	"os"
	"time"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: outside ADDRESS CERTIFICATE KEY")
		os.Exit(2)
	}
	server := &http.Server{
		Addr: os.Args[1],
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s%s\n", r.Host, r.URL.Path) //nolint:gosec // an answer of the test node, which no browser reads
		}),
		ReadHeaderTimeout: 10 * time.Second,
	}
	log.Fatal(server.ListenAndServeTLS(os.Args[2], os.Args[3]))
}
