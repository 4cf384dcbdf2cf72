// Command member runs one etcd member for tests: a real process, which can be killed, stopped and restarted, with etcd's
// own server inside. What it is told on its standard input it does, and when that ends, it ends: it never outlives the
// test that started it.
//
//	delay 200ms   from now on every write to the disk takes 200 ms longer (with -slow-disk)
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

func main() {
	if err := run(os.Args[1:], os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "member:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	name, dir, log               string
	client, peer, advertisedPeer string
	cluster, token               string
	cert, key, ca                string
	slowDisk                     bool
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("member", flag.ContinueOnError)
	flags.StringVar(&o.name, "name", "m0", "the member's name")
	flags.StringVar(&o.dir, "dir", "", "its data directory")
	flags.StringVar(&o.log, "log", "", "the file it logs to")
	flags.StringVar(&o.client, "client", "", "the URL it listens on for clients")
	flags.StringVar(&o.peer, "peer", "", "the URL it listens on for its peers")
	flags.StringVar(&o.advertisedPeer, "advertised-peer", "", "the URL its peers know it by")
	flags.StringVar(&o.cluster, "cluster", "", "name=URL of every member, comma separated")
	flags.StringVar(&o.token, "token", "etcd-cluster", "what tells this cluster from others with the same URLs")
	flags.StringVar(&o.cert, "cert", "", "the certificate it shows clients")
	flags.StringVar(&o.key, "key", "", "that certificate's key")
	flags.StringVar(&o.ca, "ca", "", "the authority a client's certificate must be from")
	flags.BoolVar(&o.slowDisk, "slow-disk", false, "obey `delay`")
	return o, flags.Parse(args)
}

func (o options) config() (*embed.Config, error) {
	config := embed.NewConfig()
	config.Name, config.Dir = o.name, o.dir
	config.InitialCluster, config.InitialClusterToken = o.cluster, o.token
	config.LogLevel, config.LogOutputs = "info", []string{o.log}
	// Small: several of them share two cores with the tests.
	config.TickMs, config.ElectionMs = 100, 1000
	config.QuotaBackendBytes = 64 << 20
	config.SnapshotCount = 1000
	for _, at := range []struct {
		urls *[]url.URL
		text string
	}{
		{&config.ListenClientUrls, o.client},
		{&config.AdvertiseClientUrls, o.client},
		{&config.ListenPeerUrls, o.peer},
		{&config.AdvertisePeerUrls, o.advertisedPeer},
	} {
		parsed, err := url.Parse(at.text)
		if err != nil {
			return nil, err
		}
		*at.urls = []url.URL{*parsed}
	}
	if o.cert != "" {
		config.ClientTLSInfo.CertFile, config.ClientTLSInfo.KeyFile = o.cert, o.key
		config.ClientTLSInfo.TrustedCAFile, config.ClientTLSInfo.ClientCertAuth = o.ca, true
	}
	return config, nil
}

func run(args []string, orders io.Reader) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	var d disk
	if o.slowDisk {
		if err := d.intercept(); err != nil {
			return fmt.Errorf("take hold of the disk: %w", err)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- obey(orders, &d) }()
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, syscall.SIGTERM)

	config, err := o.config()
	if err != nil {
		return err
	}
	server, err := embed.StartEtcd(config)
	if err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	select {
	case err = <-server.Err():
	case <-terminate:
		server.Close()
	case err = <-ended: // the parent is gone: nobody reads the data any more
	}
	return err
}

func obey(orders io.Reader, d *disk) error {
	for lines := bufio.NewScanner(orders); lines.Scan(); {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		if word != "delay" {
			return fmt.Errorf("unknown order %q", lines.Text())
		}
		by, err := time.ParseDuration(rest)
		if err != nil {
			return err
		}
		d.delay.Store(int64(by))
	}
	return errors.New("its parent is gone")
}
