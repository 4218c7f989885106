// CoreDNS with the plugins that the test node needs: the clouds' are most of what upstream's own
// command compiles.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/hosts"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/template"
)

func main() {
	// In this order they are asked. Upstream asks template first, which is the last resort here.
	dnsserver.Directives = []string{"bind", "ready", "errors", "kubernetes", "hosts", "template"}
	coremain.Run()
}
