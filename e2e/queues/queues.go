// Package queues is empty. Its module pins the queues and gang schedulers of
// others that the tests install; go.mod names their programs as tools.
package queues
