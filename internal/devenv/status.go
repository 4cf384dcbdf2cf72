package devenv

// State of an instance.
type State string

// The states. Starting covers a server that lives and does not answer yet, or no longer.
const (
	Absent   State = "absent"
	Stopped  State = "stopped"
	Starting State = "starting"
	Running  State = "running"
)

// Status is what `dlockctl dev status` shows.
type Status struct {
	StateDir  string           `json:"state_dir"`
	Instances []InstanceStatus `json:"instances"`
}

// InstanceStatus is one of the two instances. Of an absent one only Name and State are set.
type InstanceStatus struct {
	Name    string `json:"name"`
	State   State  `json:"state"`
	Version string `json:"version"`
	Port    int    `json:"port"`
	DataDir string `json:"data_dir"`
	// SocketDir is the folder of the unix socket.
	SocketDir string `json:"socket_dir"`
	// PID is 0 unless a server runs.
	PID int `json:"pid"`
	// DSNFile holds the DSN, a secret, readable by its owner alone.
	DSNFile string `json:"dsn_file"`
	LogFile string `json:"log_file"`
	PGBin   string `json:"pg_bin"`
	// SystemIdentifier tells physical instances apart: K-6.1.
	SystemIdentifier int64 `json:"system_identifier"`
}
