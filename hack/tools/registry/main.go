// The registry of the CNCF's distribution project with the one storage that the test node needs:
// the drivers for clouds are most of what upstream's own command compiles.
package main

import (
	"os"

	"github.com/distribution/distribution/v3/registry"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
)

func main() {
	if registry.RootCmd.Execute() != nil {
		os.Exit(1)
	}
}
