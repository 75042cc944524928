package simkube

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// This file is what a test may do with a server without being a process: no faults, no cache.

// Put adds an object as it is, status included.
func (s *Server) Put(obj client.Object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.create(obj, true)
}

// Version counts changes.
func (s *Server) Version() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version + s.drops
}

// Read fills in the stored object.
func (s *Server) Read(key client.ObjectKey, obj client.Object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	have, err := s.get(s.kindOf(obj), key)
	if err != nil {
		return err
	}
	assign(obj, have)
	return nil
}

// ReadAll fills in all stored objects of a kind.
func (s *Server) ReadAll(list client.ObjectList) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fill(s, list, s.objects, nil, nil)
}

// Edit changes the stored object, metadata, spec and status, as somebody with all rights and two calls would.
func (s *Server) Edit(key client.ObjectKey, obj client.Object, change func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	have, err := s.get(s.kindOf(obj), key)
	if err != nil {
		return err
	}
	assign(obj, have)
	change()
	wanted := copyOf(obj)
	if err := s.update(obj, false); err != nil {
		return err
	}
	if _, err := s.get(s.kindOf(obj), key); err != nil {
		return nil // the last finalizer went
	}
	wanted.SetResourceVersion(obj.GetResourceVersion())
	if _, ok := status(wanted); !ok {
		return nil
	}
	return s.update(wanted, true)
}

// Delete deletes an object as kubectl does.
func (s *Server) Delete(obj client.Object, opts ...client.DeleteOption) error {
	o := client.DeleteOptions{}
	o.ApplyOptions(opts)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.remove(obj, o)
}

// Drop removes an object whatever holds it, as its kubelet or a forced hand does.
func (s *Server) Drop(obj client.Object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	gvk := s.kindOf(obj)
	have, err := s.get(gvk, client.ObjectKeyFromObject(obj))
	if err != nil {
		return err
	}
	s.emit(gvk, have, nil)
	return nil
}
