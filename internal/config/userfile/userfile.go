// Package userfile says where the user's configuration file is. It imports
// nothing that has to be initialised, for who only asks whether there is one.
package userfile

import "runtime"

// Path is $XDG_CONFIG_HOME/dlockctl/config.yaml, on every system, as operators
// expect of such a tool; "" when there is no home to look in.
func Path(env func(string) string) string {
	separator := "/"
	if runtime.GOOS == "windows" {
		separator = `\`
	}
	folder := env("XDG_CONFIG_HOME")
	if folder == "" && env("HOME") != "" {
		folder = env("HOME") + separator + ".config"
	}
	if folder == "" {
		folder = env("APPDATA")
	}
	if folder == "" {
		return ""
	}
	return folder + separator + "dlockctl" + separator + "config.yaml"
}
