package realnode

import (
	"errors"
	"net"
	"path/filepath"
	"strconv"
)

// Network is what the network of a cluster is told.
type Network struct {
	Subnet Subnet `json:"subnet"`
	// API is the address of the API server on the machine.
	API   string `json:"api"`
	Nodes []Node `json:"nodes"`
	// Dir holds the file that says that it is ready.
	Dir string `json:"dir"`
}

func (n Network) readyFile() string { return filepath.Join(n.Dir, "ready") }

// Ready says why nodes cannot be plugged in yet.
func (n Network) Ready() error {
	if !locked(n.readyFile()) {
		return errors.New("the network is being set up")
	}
	return nil
}

// machineInterface is the one interface that the machine gets.
func machineInterface(s Subnet) string { return "mlbatch" + strconv.Itoa(int(s)) }

// interfaceGone reports whether the machine's interface has vanished with the network.
func interfaceGone(s Subnet) bool {
	_, err := net.InterfaceByName(machineInterface(s))
	return err != nil
}
