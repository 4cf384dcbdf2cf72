//go:build unix

package early

import (
	"syscall"
	_ "unsafe" // for the linkname

	"github.com/dlockctl/dlockctl/internal/buildinfo"
	"github.com/dlockctl/dlockctl/internal/config/userfile"
)

// arguments are what will be os.Args: a third of what there is to initialise stands
// between package syscall and package os.
//
//go:linkname arguments os.runtime_args
func arguments() []string

//go:linkname setGCPercent runtime/debug.setGCPercent
func setGCPercent(percent int32) int32

func init() {
	if plainVersion(arguments(), getenv) {
		// What cannot be written is tried again, and reported, on the ordinary way.
		line := buildinfo.Read().Line()
		if n, err := syscall.Write(syscall.Stdout, []byte(line)); n == len(line) && err == nil {
			syscall.Exit(0)
		}
	}
	// What the libraries make as they are initialised lives as long as the process: to
	// collect garbage among it takes a fifth of every verb's start. The function main
	// goes back to the usual percentage.
	if getenv("GOGC") == "" {
		setGCPercent(400)
	}
}

func getenv(name string) string {
	value, _ := syscall.Getenv(name)
	return value
}

// plainVersion tells a command line that is the verb alone, where nothing can ask
// for another format. What it is not sure of goes the ordinary way.
func plainVersion(args []string, env func(string) string) bool {
	if len(args) != 2 || args[1] != "version" || env("DLOCKCTL_OUTPUT") != "" || env("DLOCKCTL_CONFIG") != "" {
		return false
	}
	file := userfile.Path(env)
	if file == "" {
		return true
	}
	var stat syscall.Stat_t
	return syscall.Lstat(file, &stat) == syscall.ENOENT
}
