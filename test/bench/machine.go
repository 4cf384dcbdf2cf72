package main

import (
	"os"
	"regexp"
	"strconv"
)

var memTotal = regexp.MustCompile(`(?m)^MemTotal:\s+(\d+) kB$`)

// memoryMiB is the machine's memory, 0 where the system does not say it in /proc.
func memoryMiB() int64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	found := memTotal.FindSubmatch(text)
	if found == nil {
		return 0
	}
	kib, err := strconv.ParseInt(string(found[1]), 10, 64)
	if err != nil {
		return 0
	}
	return kib / 1024
}
