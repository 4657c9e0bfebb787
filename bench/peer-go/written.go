package main

import (
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// writtenTimeout is how long a written object that the cache does not have is used. It may have been deleted before its
// creation was answered.
const writtenTimeout = 10 * time.Second

// written holds the objects that this operator has written and that the caches do not have yet. Without it, events in the
// meantime would cause the same writes again.
type written struct {
	lock    sync.Mutex
	objects map[writtenKey]writtenObject
}

type writtenKey struct {
	kind reflect.Type
	name types.NamespacedName
}

type writtenObject struct {
	object client.Object
	at     time.Time
}

func keyOf(object client.Object) writtenKey {
	return writtenKey{reflect.TypeOf(object), client.ObjectKeyFromObject(object)}
}

// add stores an object as the API server has returned it.
func (w *written) add(object client.Object) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.objects == nil {
		w.objects = map[writtenKey]writtenObject{}
	}
	w.objects[keyOf(object)] = writtenObject{object, time.Now()}
}

// newer returns the written object if it is newer than the one in the cache, and forgets it otherwise. The resource
// version of an object that is not in the cache is empty.
func (w *written) newer(cached client.Object) client.Object {
	w.lock.Lock()
	defer w.lock.Unlock()
	key := keyOf(cached)
	entry, ok := w.objects[key]
	if !ok {
		return nil
	}
	version := cached.GetResourceVersion()
	if version == "" && time.Since(entry.at) < writtenTimeout {
		return entry.object
	}
	order, err := resourceversion.CompareResourceVersion(version, entry.object.GetResourceVersion())
	if err == nil && order < 0 {
		return entry.object
	}
	delete(w.objects, key)
	return nil
}

// isOwn reports whether an event has the object as this operator has written it, so that no reconcile is needed.
func (w *written) isOwn(object client.Object) bool {
	w.lock.Lock()
	entry, ok := w.objects[keyOf(object)]
	w.lock.Unlock()
	isOwn := ok && entry.object.GetResourceVersion() == object.GetResourceVersion()
	w.newer(object)
	return isOwn
}

// remove forgets an object that was deleted.
func (w *written) remove(object client.Object) {
	w.lock.Lock()
	defer w.lock.Unlock()
	delete(w.objects, keyOf(object))
}
