//! For tests: the cluster that librdkafka has for its own, in this process. It takes transactions;
//! positions it forgets, and that one was given up its consumers do not see.

use crate::api::Client;
use crate::handle::Handle;
use crate::library::Library;
use std::ffi::{CStr, c_char, c_int};
use std::ptr::NonNull;

/// `rd_kafka_mock_cluster_t`.
#[repr(C)]
struct Cluster {
    _private: [u8; 0],
}

type New = unsafe extern "C" fn(*mut Client, c_int) -> *mut Cluster;
type Destroy = unsafe extern "C" fn(*mut Cluster);
type Brokers = unsafe extern "C" fn(*const Cluster) -> *const c_char;
type SetBroker = unsafe extern "C" fn(*mut Cluster, i32) -> c_int;

/// A cluster of such brokers. It ends with this.
pub struct MockCluster {
    cluster: NonNull<Cluster>,
    brokers: c_int,
    functions: Functions,
    /// The cluster belongs to a client.
    _client: Handle,
}

/// The library's functions for tests.
struct Functions {
    new: New,
    destroy: Destroy,
    bootstraps: Brokers,
    set_up: SetBroker,
    set_down: SetBroker,
}

impl Functions {
    fn find() -> Functions {
        // SAFETY: the library that is open already.
        let library = unsafe { libloading::Library::new("librdkafka.so.1") };
        let library = library.expect("librdkafka");
        // SAFETY: the types are those of `rdkafka_mock.h`, and the library stays open to the end.
        let functions = unsafe {
            Functions {
                new: found(&library, "rd_kafka_mock_cluster_new"),
                destroy: found(&library, "rd_kafka_mock_cluster_destroy"),
                bootstraps: found(&library, "rd_kafka_mock_cluster_bootstraps"),
                set_up: found(&library, "rd_kafka_mock_broker_set_up"),
                set_down: found(&library, "rd_kafka_mock_broker_set_down"),
            }
        };
        std::mem::forget(library);
        functions
    }
}

/// # Safety
/// A function of this name has the type `F`.
unsafe fn found<F: Copy>(library: &libloading::Library, name: &str) -> F {
    // SAFETY: as above.
    *unsafe { library.get::<F>(name.as_bytes()) }.expect("a function for tests")
}

impl MockCluster {
    /// A cluster.
    ///
    /// # Panics
    /// The library has none.
    pub fn start(library: Library, brokers: c_int) -> MockCluster {
        let client = Handle::producer(library, &[("bootstrap.servers", "127.0.0.1:1")]);
        let client = client.expect("a client");
        let functions = Functions::find();
        // SAFETY: a client that is there, and stays as long as the cluster.
        let cluster = unsafe { (functions.new)(client.client.as_ptr(), brokers) };
        let cluster = NonNull::new(cluster).expect("a cluster");
        MockCluster { cluster, brokers, functions, _client: client }
    }

    /// Where its brokers are.
    pub fn brokers(&self) -> String {
        // SAFETY: a cluster that is there, and its text, which lives as long.
        let brokers = unsafe { CStr::from_ptr((self.functions.bootstraps)(self.cluster.as_ptr())) };
        brokers.to_string_lossy().into_owned()
    }

    /// Takes all brokers away, or lets them come back.
    ///
    /// # Panics
    /// The library refuses.
    pub fn set_up(&self, is_up: bool) {
        let set = if is_up { self.functions.set_up } else { self.functions.set_down };
        for broker in 1..=self.brokers {
            // SAFETY: a cluster that is there, and the number of one of its brokers.
            assert_eq!(unsafe { set(self.cluster.as_ptr(), broker) }, 0);
        }
    }
}

impl Drop for MockCluster {
    fn drop(&mut self) {
        // SAFETY: a cluster that is there, and which nothing has any more.
        unsafe { (self.functions.destroy)(self.cluster.as_ptr()) };
    }
}
