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

// get returns what was written. It is called before the cache is read, because an event then removes the entry.
func (w *written) get(object client.Object) writtenObject {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.objects[keyOf(object)]
}

// isNewer reports whether this is newer than the object in the cache, whose resource version is empty if there is none.
func (o writtenObject) isNewer(cached client.Object) bool {
	if o.object == nil {
		return false
	}
	version := cached.GetResourceVersion()
	if version == "" {
		return time.Since(o.at) < writtenTimeout
	}
	order, err := resourceversion.CompareResourceVersion(version, o.object.GetResourceVersion())
	return err == nil && order < 0
}

// observe forgets what was written unless it is newer than the object in the cache.
func (w *written) observe(cached client.Object) {
	if !w.get(cached).isNewer(cached) {
		w.remove(cached)
	}
}

// isOwn reports whether an event has the object as this operator has written it, so that no reconcile is needed.
func (w *written) isOwn(object client.Object) bool {
	written := w.get(object).object
	w.observe(object)
	return written != nil && written.GetResourceVersion() == object.GetResourceVersion()
}

// remove forgets an object that was deleted.
func (w *written) remove(object client.Object) {
	w.lock.Lock()
	defer w.lock.Unlock()
	delete(w.objects, keyOf(object))
}
