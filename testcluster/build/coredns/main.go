// CoreDNS with the plugins of the local cluster's Corefile only: the others bring in the clients of several clouds, which are
// most of a build.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

func main() {
	dnsserver.Directives = []string{"bind", "health", "errors", "cache", "kubernetes"}
	coremain.Run()
}
