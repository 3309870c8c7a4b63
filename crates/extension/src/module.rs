//! A module that was compiled, and its calls.

use crate::abi::{IMPORTS, MODULE, VERSION, linker};
use crate::host::Host;
use crate::ledger::{Fault, Faulted};
use crate::limits::{
    CALL_DEPTH_MAX, EDGE_FUEL, EDGE_RECORDS_MAX, FILE_BYTES_MAX, PACKET_BYTES_MAX, PACKET_FUEL,
    STACK_BYTES_MAX,
};
use crate::{ExtensionError, Found};
use ringside_inspect::{DissectedFrame, Received};
use ringside_logs::Sinks;
use std::sync::Arc;
use wasmi::{
    CompilationMode, Config, EnforcedLimits, Engine, Error, Instance, Memory, Module, Store,
    TrapCode, TypedFunc, WasmParams, WasmResults,
};

/// `ringside_packet(bytes, wire_bytes, time_ns, link_type, interface)`.
type OnPacket = TypedFunc<(u32, u32, u64, u32, u32), ()>;

/// A module, ready for packets.
pub(crate) struct ModuleGuest {
    store: Store<Host>,
    memory: Memory,
    /// Where its memory has room for a packet.
    buffer: usize,
    on_packet: OnPacket,
    on_end: Option<TypedFunc<(), ()>>,
}

impl ModuleGuest {
    /// Compiles a module and starts it.
    pub(crate) fn new(
        name: Arc<str>,
        module: &[u8],
        sinks: Sinks<'static, Found>,
    ) -> Result<ModuleGuest, ExtensionError> {
        if module.len() > FILE_BYTES_MAX {
            return Err(ExtensionError::TooLong);
        }
        let engine = Engine::new(&config());
        let module = compiled(&engine, module).map_err(ExtensionError::Module)?;
        check_imports(&module)?;
        let mut store = Store::new(&engine, Host::new(name, sinks));
        store.limiter(|host| &mut host.limits);
        begin_edge(&mut store);
        let linker = linker(&engine).map_err(|error| ExtensionError::Start(error.to_string()))?;
        let instance = linker.instantiate_and_start(&mut store, &module).map_err(not_started)?;
        let memory = instance.get_memory(&store, "memory");
        let memory = memory.ok_or(ExtensionError::Export("its memory, as \"memory\""))?;
        let wanted = "ringside_abi: () -> i32";
        let version: TypedFunc<(), i32> = exported(&instance, &store, "ringside_abi", wanted)?;
        let version = version.call(&mut store, ()).map_err(not_started)?;
        if version != VERSION {
            return Err(ExtensionError::Version(version));
        }
        let wanted = "ringside_buffer: () -> i32";
        let buffer: TypedFunc<(), u32> = exported(&instance, &store, "ringside_buffer", wanted)?;
        let buffer = buffer.call(&mut store, ()).map_err(not_started)?;
        // Memory never shrinks, so that it will be there.
        if memory.data(&store).get(buffer as usize..buffer as usize + PACKET_BYTES_MAX).is_none() {
            return Err(ExtensionError::Buffer(buffer));
        }
        let wanted = "ringside_packet: (i32, i32, i64, i32, i32) -> ()";
        let on_packet = exported(&instance, &store, "ringside_packet", wanted)?;
        let wanted = "ringside_end, if at all, as () -> ()";
        let on_end = match instance.get_export(&store, "ringside_end") {
            Some(_) => Some(exported(&instance, &store, "ringside_end", wanted)?),
            None => None,
        };
        Ok(ModuleGuest { store, memory, buffer: buffer as usize, on_packet, on_end })
    }

    pub(crate) fn host(&self) -> &Host {
        self.store.data()
    }

    pub(crate) fn host_mut(&mut self) -> &mut Host {
        self.store.data_mut()
    }

    /// Bytes of its memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory.data_size(&self.store)
    }

    /// Shows it a packet.
    pub(crate) fn see(
        &mut self,
        frame: &DissectedFrame<'_>,
        received: &Received<'_>,
    ) -> Result<(), Faulted> {
        let (data, host) = self.memory.data_and_store_mut(&mut self.store);
        let bytes = host.enter_packet(frame, received, PACKET_BYTES_MAX);
        if let Some(room) = data.get_mut(self.buffer..self.buffer + bytes.len()) {
            room.copy_from_slice(bytes);
        }
        let meta = received.meta;
        let link_type = u32::from(frame.link().0);
        let wire_bytes = frame.wire_bytes();
        let params =
            (bytes.len() as u32, wire_bytes, meta.timestamp.0, link_type, meta.interface.0);
        // Without metering, which is always on, these would fail; then nothing may run.
        self.store.set_fuel(PACKET_FUEL).map_err(faulted)?;
        let outcome = self.on_packet.call(&mut self.store, params).map_err(faulted);
        let left = self.store.get_fuel().map_err(faulted)?;
        self.store.data_mut().ledger.fuel += PACKET_FUEL.saturating_sub(left);
        outcome
    }

    /// There are no more packets.
    pub(crate) fn end(&mut self) -> Result<(), Faulted> {
        begin_edge(&mut self.store);
        self.on_end.map_or(Ok(()), |on_end| on_end.call(&mut self.store, ()).map_err(faulted))
    }
}

/// Compiles a module, or the text of one; what is wrong with it otherwise.
fn compiled(engine: &Engine, module: &[u8]) -> Result<Module, String> {
    let module = wat::parse_bytes(module).map_err(|error| error.to_string())?;
    // The compiler checks as it goes, and panics at some modules before it has found that they are
    // none (wasmi 2.0: an operator behind the end of a function). It gets none of those.
    Module::validate(engine, &module).map_err(|error| error.to_string())?;
    Module::new(engine, &module).map_err(|error| error.to_string())
}

fn config() -> Config {
    let mut config = Config::default();
    config
        .consume_fuel(true)
        .compilation_mode(CompilationMode::Eager)
        .enforced_limits(EnforcedLimits::strict())
        .ignore_custom_sections(true)
        .set_max_recursion_depth(CALL_DEPTH_MAX)
        .set_max_stack_height(STACK_BYTES_MAX);
    config
}

/// What a module may use at its start and its end.
fn begin_edge(store: &mut Store<Host>) {
    store.data_mut().leave_packet(EDGE_RECORDS_MAX);
    // It fails without metering, and then no call has fuel.
    let _ = store.set_fuel(EDGE_FUEL);
}

fn check_imports(module: &Module) -> Result<(), ExtensionError> {
    let is_ours = |import: &wasmi::ImportType<'_>| {
        import.module() == MODULE && IMPORTS.contains(&import.name())
    };
    let Some(other) = module.imports().find(|import| !is_ours(import)) else { return Ok(()) };
    // Names come from the module, and may be long.
    let shown = |name: &str| name.escape_debug().take(64).collect::<String>();
    Err(ExtensionError::Import { module: shown(other.module()), name: shown(other.name()) })
}

fn exported<P: WasmParams, R: WasmResults>(
    instance: &Instance,
    store: &Store<Host>,
    name: &str,
    wanted: &'static str,
) -> Result<TypedFunc<P, R>, ExtensionError> {
    instance.get_typed_func(store, name).map_err(|_| ExtensionError::Export(wanted))
}

fn not_started(error: Error) -> ExtensionError {
    ExtensionError::Start(error.to_string())
}

fn faulted(error: Error) -> Faulted {
    let fault = match error.as_trap_code() {
        Some(TrapCode::OutOfFuel) => Fault::OutOfFuel,
        Some(TrapCode::StackOverflow) => Fault::StackExhausted,
        Some(TrapCode::MemoryOutOfBounds | TrapCode::TableOutOfBounds) => Fault::OutOfBounds,
        _ => Fault::Trapped,
    };
    Faulted { fault, text: error.to_string() }
}
