package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/cli/serve/supervise"
	"github.com/dlockctl/dlockctl/internal/config"
	"github.com/dlockctl/dlockctl/internal/service/client"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/ui"
)

type allOptions struct {
	executors int
	mood      string
	anyPort   bool
}

func newAllCmd(a *app.App) *cobra.Command {
	var opts allOptions
	cmd := &cobra.Command{
		Use:   "all",
		Short: "Run all services on this machine",
		Long: "Run rail-sim (unless rail.url names a rail), payment-resource, rail-proxy, lock-server and\n" +
			"payout-executor, each in a process and under a login of its own, all on loopback. One that dies is\n" +
			"started again. Requests are logged only with --log-level. For a laptop, a demonstration and tests:\n" +
			"refused on a protected profile.",
		Example: "  dlockctl dev up\n  dlockctl serve all\n  dlockctl serve all --executors 3 --mood flaky",
		Args:    app.Args(),
		RunE: a.Run(func(ctx context.Context, _ []string) error {
			a.Endless()
			return runAll(ctx, a, opts)
		}),
	}
	flags := cmd.Flags()
	app.WholeVar(flags, &opts.executors, "executors", 1, "payout-executors to run")
	flags.StringVar(&opts.mood, "mood", "", "`MOOD` of rail-sim; see dlockctl serve rail-sim --help")
	flags.BoolVar(&opts.anyPort, "any-port", false, "let each service take any free port instead of 7420 to 7424")
	flags.String("rail-url", "", "`URL` of a payment rail to use instead of rail-sim")
	flags.String("rail-key-file", "", "`FILE` that holds the key of the rail's API, one line")
	flags.Duration("rail-deadline", 0, railDeadlineUsage)
	flags.Duration("drain", 0, "how long each service has to finish what it has begun (default 20s)")
	flags.String("log-format", "", "`FORMAT` of the logs on stderr: text or json (default text)")
	flags.String("log-level", "", "`LEVEL` from which on is logged: debug, info, warn or error (default info)")
	return cmd
}

func runAll(ctx context.Context, a *app.App, opts allOptions) error {
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	if err := unprotected(cfg, "serve all is for trying things out"); err != nil {
		return err
	}
	if opts.executors < 0 || opts.executors > 64 {
		return app.UsageError("give 0 to 64", "--executors %d is out of bounds", opts.executors)
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	signal.Ignore(syscall.SIGHUP)
	all := &household{app: a, cfg: cfg, opts: opts}
	if cfg.Embedded() {
		env, err := a.Dev()
		if err != nil {
			return err
		}
		// Before five services say it, each in its own words.
		if _, err := env.ServiceDSN("lockapp"); err != nil {
			return err
		}
		all.railState = filepath.Join(filepath.Dir(env.Dir()), "rail-sim.jsonl")
	}
	all.supervisor = &supervise.Supervisor{
		Program: program, Name: "dlockctl", Err: a.Streams.Err, Grace: cfg.Serve.Drain + 5*time.Second,
		// What is configured wrongly, or refused, is the same the next time.
		Final: func(exit int) bool { return exit == int(app.Usage) || exit == int(app.Refused) },
	}
	if cfg.Origin("serve.log_level").Layer == config.Default {
		all.supervisor.Hide = routine
	}
	err = all.supervisor.Run(ctx, all.children(), all.print)
	if final, ok := errors.AsType[*supervise.FinalError](err); ok {
		return &app.Failure{Exit: app.Exit(final.Exit), Code: "service_ended", Message: final.Error(), Hint: "start it alone: dlockctl serve " + kind(final.Name)}
	}
	return err
}

// routine is the log line of a request that went as it should: five services that
// look for work write several a second.
func routine(line []byte) bool {
	return bytes.Contains(line, []byte("level=INFO msg=request ")) || bytes.Contains(line, []byte(`"level":"INFO","msg":"request"`))
}

// household is all services on one machine.
type household struct {
	app        *app.App
	cfg        *config.Config
	opts       allOptions
	railState  string
	supervisor *supervise.Supervisor
}

// member is a service of the household: its default port, which of the database
// settings are its own, and its further arguments.
type member struct {
	name string
	port int
	own  string
	args func() []string
}

func (h *household) members() []member {
	var all []member
	railURL := func() string { return h.cfg.Rail.URL }
	if h.cfg.Rail.URL == "" {
		railURL = func() string { return h.url("rail-sim") }
		all = append(all, member{"rail-sim", railSimPort, "", h.railSim})
	}
	deadline := h.cfg.Rail.Deadline.String()
	all = append(all,
		member{"payment-resource", paymentResourcePort, "pay", func() []string { return []string{"--rail-deadline", deadline} }},
		member{"rail-proxy", railProxyPort, "rail", func() []string {
			args := []string{"--rail-url", railURL(), "--rail-deadline", deadline}
			if h.cfg.Rail.KeyFile != "" {
				args = append(args, "--rail-key-file", h.cfg.Rail.KeyFile)
			}
			return args
		}},
		member{"lock-server", lockServerPort, "lock", func() []string {
			return []string{"--pay-url", h.url("payment-resource"), "--rail-proxy-url", h.url("rail-proxy")}
		}},
	)
	for n := range h.opts.executors {
		name := "payout-executor"
		if h.opts.executors > 1 {
			name += "-" + strconv.Itoa(n+1)
		}
		all = append(all, member{name, executorPort + n, "", func() []string {
			return []string{
				"--lock-url", h.url("lock-server"), "--pay-url", h.url("payment-resource"), "--rail-proxy-url", h.url("rail-proxy"),
				"--rail-deadline", deadline, "--owner", name + "@" + hostname(),
			}
		}})
	}
	return all
}

// kind is the service that a member of the household is.
func kind(name string) string {
	if strings.HasPrefix(name, "payout-executor") {
		return "payout-executor"
	}
	return name
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return name
}

func (h *household) railSim() []string {
	var args []string
	if h.opts.mood != "" {
		args = append(args, "--mood", h.opts.mood)
	}
	if h.railState != "" {
		args = append(args, "--state", h.railState)
	}
	return args
}

func (h *household) url(name string) string { return "http://" + h.supervisor.Address(name) }

// children are the members as processes. Each knows its own database's login, and
// none of the others' (K-4.6, K-6.2), as far as they come by flag or variable.
func (h *household) children() []supervise.Child {
	var children []supervise.Child
	for _, m := range h.members() {
		children = append(children, supervise.Child{Name: m.name, Env: environment(os.Environ(), m.own), Args: func(again string) []string {
			listen := again
			if listen == "" {
				listen = "127.0.0.1:" + strconv.Itoa(m.port)
				if h.opts.anyPort {
					listen = "127.0.0.1:0"
				}
			}
			args := []string{
				"serve", kind(m.name), "--listen", listen, "--drain", h.cfg.Serve.Drain.String(),
				"--log-format", h.cfg.Serve.LogFormat, "--log-level", atMostInfo(h.cfg.Serve.LogLevel),
			}
			return append(append(args, connection(h.app.Connection(), m.own)...), m.args()...)
		}})
	}
	return children
}

// atMostInfo keeps the level low enough for the line that says where a service
// listens.
func atMostInfo(level string) string {
	if level == "debug" {
		return level
	}
	return "info"
}

// connection leaves the other services' DSN files out of the flags.
func connection(flags []string, own string) []string {
	var left []string
	for i := 0; i < len(flags); i++ {
		db, isDSN := strings.CutSuffix(strings.TrimPrefix(flags[i], "--"), "-dsn-file")
		if isDSN && i+1 < len(flags) {
			if db == own {
				left = append(left, flags[i], flags[i+1])
			}
			i++
			continue
		}
		left = append(left, flags[i])
	}
	return left
}

// environment leaves the other services' logins out of the variables.
func environment(variables []string, own string) []string {
	var left []string
	for _, variable := range variables {
		name, _, _ := strings.Cut(variable, "=")
		foreign := false
		for _, db := range []string{"LOCK", "PAY", "RAIL"} {
			isLogin := name == "DLOCKCTL_"+db+"_DSN" || name == "DLOCKCTL_"+db+"_DSN_FILE"
			foreign = foreign || isLogin && db != strings.ToUpper(own)
		}
		// Where etcd is, all may know: locks that are there share no instance with money.
		isEtcd := slices.Contains([]string{"DLOCKCTL_ETCD_USER", "DLOCKCTL_ETCD_PASSWORD_FILE", "DLOCKCTL_ETCD_CERT_FILE", "DLOCKCTL_ETCD_KEY_FILE"}, name)
		foreign = foreign || isEtcd && own != "lock"
		if !foreign && name != "DLOCKCTL_SERVE_LISTEN" {
			left = append(left, variable)
		}
	}
	return left
}

// serviceView is a row of what serve all prints at the start.
type serviceView struct {
	Service string `json:"service"`
	Address string `json:"address"`
	State   string `json:"state"`
	Reason  string `json:"reason"`
}

// readyWithin is how long the start waits for the services to be ready before it
// says how they are.
const readyWithin = 15 * time.Second

// print says how the services are, once they are ready or have had their time.
func (h *household) print(ctx context.Context) {
	var rows []serviceView
	deadline := time.Now().Add(readyWithin)
	for _, m := range h.members() {
		rows = append(rows, h.await(ctx, m.name, deadline))
	}
	if ctx.Err() != nil {
		return
	}
	columns := []ui.Column{{Title: "SERVICE", Field: "service"}, {Title: "ADDRESS", Field: "address"}, {Title: "STATE", Field: "state"}, {Title: "REASON", Field: "reason"}}
	if err := h.app.Print(ui.View{Data: rows, Columns: columns, Name: "service"}); err != nil {
		h.app.Warn("the table cannot be printed: %v", err)
	}
}

// await asks a service until it is ready.
func (h *household) await(ctx context.Context, name string, deadline time.Time) serviceView {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		view := serviceView{Service: name, Address: h.supervisor.Address(name)}
		health, err := client.Health(ctx, client.Options{URL: "http://" + view.Address, Timeout: healthTime})
		view.State, view.Reason = summary(health, err)
		if view.State != "not ready" || time.Now().After(deadline) {
			return view
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return view
		}
	}
}

// healthTime is how long a service has to say how it is.
const healthTime = 5 * time.Second

// summary is a service's health in two words, with what is wrong or to be seen.
func summary(health httpd.Health, err error) (state, reason string) {
	if err != nil {
		return "not ready", err.Error()
	}
	var seen []string
	for _, c := range health.Conditions {
		if c.State != httpd.Good {
			seen = append(seen, c.Reason)
		}
	}
	state = "ready"
	switch {
	case !health.Ready:
		state = "not ready"
	case len(seen) > 0:
		state = "warning"
	}
	return state, strings.Join(seen, "; ")
}
