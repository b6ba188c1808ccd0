//! Runs the tasks of the connections on as few workers of the runtime as will do.
//!
//! A worker of the runtime that finds two sockets ready wakes another worker. At a small load that costs more than it
//! gains: the wake, and that both then look at the sockets, each for a part of what one would have answered in one go.
//! And a worker that finds one wakes nobody: while it is stuck in a write to a slow disk, no socket is looked at.
//!
//! Method: the tasks lie in one queue, which runners, tasks of the runtime, empty; as many as the runtime has workers. One
//! of them is woken when the first task comes, and the others sleep. A thread beside the runtime looks at them: where
//! those that are awake have gone on for a whole [`TICK`], there is much to do, or they are stuck. Then one more is
//! woken, with which a worker comes that looks at the sockets, and for some time each of them that finds more than it
//! can take wakes the next one. A task that knows that it will block says so ([`block_in_place`]): its runner counts for
//! nothing meanwhile, and there is one more if it was the last.
//!
//! Invariant: while a task waits in the queue a runner is awake that is not known to be blocked.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_task::Runnable;
use parking_lot::Mutex;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::{JoinHandle, coop};

use crate::threads::EVENT_INTERVAL;

/// A task that is running; it ends when this is dropped.
pub(crate) type Task = async_task::Task<()>;

/// How often the runners are looked at, and so how long one of them may go on before another one joins it.
const TICK: Duration = Duration::from_millis(10);
/// The same while none of them has anything to do.
const IDLE_TICK: Duration = Duration::from_millis(50);
/// Looks for which runners wake each other after one went on for a whole tick.
const EAGER_TICKS: u32 = 5;
/// Tasks for which the queue keeps room.
const KEPT_TASKS: usize = 1024;

thread_local! {
    /// The executor whose runner has its turn on this thread.
    static RUNS_HERE: RefCell<Option<Arc<Shared>>> = const { RefCell::new(None) };
}

/// Does what may block this thread for long. The other tasks, of the executor and of the runtime, go on elsewhere.
pub(crate) fn block_in_place<R>(work: impl FnOnce() -> R) -> R {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => {
            let _away = RUNS_HERE.with_borrow(Clone::clone).map(Away::begin);
            tokio::task::block_in_place(work)
        }
        _ => work(),
    }
}

/// Where the connections' tasks run, until it is stopped or the runtime ends.
pub(crate) struct Executor {
    shared: Arc<Shared>,
    runners: Vec<JoinHandle<()>>,
}

impl Executor {
    /// Starts as many runners as the current runtime has workers. `at_end` drops the tasks that it knows of; it is called
    /// when the runners have been stopped or the runtime ends, perhaps more than once.
    ///
    /// # Errors
    /// What the system says where it gives no thread.
    pub(crate) fn start(at_end: impl Fn() + Send + Sync + 'static) -> io::Result<Executor> {
        let count = Handle::current().metrics().num_workers();
        let queue = Mutex::new(Queue { awake: count, runners: count, ..Queue::default() });
        let shared = Arc::new(Shared { queue, at_end: Box::new(at_end) });
        let runners = (0..count).map(|index| tokio::spawn(run(Arc::clone(&shared), index))).collect();
        if count > 1 {
            let watched = Arc::downgrade(&shared);
            std::thread::Builder::new().name("weir-watch".to_string()).spawn(move || watch(&watched))?;
        }
        Ok(Executor { shared, runners })
    }

    /// Runs a task. One that panics ends alone.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Task {
        let shared = Arc::clone(&self.shared);
        let (runnable, task) = async_task::spawn(future, move |runnable| shared.push(runnable));
        runnable.schedule();
        if self.shared.queue.lock().is_closed {
            self.shared.drop_tasks();
        }
        task
    }

    /// Ends the runners; tasks that have not ended are dropped.
    pub(crate) fn stop(&self) {
        for runner in &self.runners {
            runner.abort();
        }
    }
}

struct Shared {
    queue: Mutex<Queue>,
    /// Drops the tasks that wait for something.
    at_end: Box<dyn Fn() + Send + Sync>,
}

#[derive(Debug, Default)]
struct Queue {
    tasks: VecDeque<Runnable>,
    /// Runners that sleep, the last one on top, whose worker is the likeliest to be warm.
    asleep: Vec<Sleeper>,
    /// Runners that neither sleep nor are blocked.
    awake: usize,
    /// Of these, how many were woken and have not looked into the queue since.
    coming: usize,
    /// How often the last of them went to sleep.
    rests: u64,
    /// Whether a runner that leaves tasks behind wakes another one.
    is_eager: bool,
    /// How many runners there have been.
    runners: usize,
    is_closed: bool,
}

#[derive(Debug)]
struct Sleeper {
    index: usize,
    waker: Waker,
}

/// A runner whose task is blocked.
struct Away(Arc<Shared>);

impl Away {
    fn begin(shared: Arc<Shared>) -> Away {
        let mut queue = shared.queue.lock();
        queue.leave();
        let waker = queue.whom_to_wake();
        let is_last = queue.awake == 0 && queue.asleep.is_empty();
        if is_last {
            (queue.awake, queue.coming, queue.runners) = (1, 1, queue.runners + 1);
        }
        let index = queue.runners;
        drop(queue);
        if let Some(waker) = waker {
            waker.wake();
        }
        if is_last {
            let shared = Arc::clone(&shared);
            tokio::spawn(async move { serve(&shared, Runner { index, is_extra: true }, true).await });
        }
        Away(shared)
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        self.0.queue.lock().awake += 1;
    }
}

impl Queue {
    /// The runner to wake for what lies in the queue.
    fn whom_to_wake(&mut self) -> Option<Waker> {
        let enough = self.coming > 0 || self.awake > 0 && !self.is_eager;
        if enough || self.tasks.is_empty() { None } else { self.wake() }
    }

    /// A runner goes to sleep, is blocked, or ends.
    fn leave(&mut self) {
        self.awake -= 1;
        self.rests += u64::from(self.awake == 0);
    }

    fn wake(&mut self) -> Option<Waker> {
        let sleeper = self.asleep.pop()?;
        self.awake += 1;
        self.coming += 1;
        Some(sleeper.waker)
    }
}

impl Shared {
    fn push(&self, runnable: Runnable) {
        let mut queue = self.queue.lock();
        // Nothing is dropped here, also when nobody will run it: who wakes a task may hold a lock that the task wants.
        queue.tasks.push_back(runnable);
        let waker = queue.whom_to_wake();
        drop(queue);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The next task. A runner that has just come says so.
    fn next(&self, comes: bool) -> Option<Runnable> {
        let mut queue = self.queue.lock();
        queue.coming -= usize::from(comes);
        let next = queue.tasks.pop_front();
        if queue.tasks.is_empty() && queue.tasks.capacity() > KEPT_TASKS {
            queue.tasks.shrink_to(KEPT_TASKS);
        }
        let waker = queue.whom_to_wake();
        drop(queue);
        if let Some(waker) = waker {
            waker.wake();
        }
        next
    }

    /// Polls some tasks. Returns whether there may be more.
    fn work(self: &Arc<Self>, mut comes: bool) -> bool {
        RUNS_HERE.set(Some(Arc::clone(self)));
        let mut turns = 0;
        let may_be_more = loop {
            let Some(runnable) = self.next(std::mem::take(&mut comes)) else { break false };
            // The hook of the process has told of a panic.
            let _ = catch_unwind(AssertUnwindSafe(|| runnable.run()));
            turns += 1;
            if turns == EVENT_INTERVAL || !coop::has_budget_remaining() {
                break true;
            }
        };
        RUNS_HERE.set(None);
        may_be_more
    }

    /// Lets a runner sleep until it is woken; unless there is something to do. Returns whether it goes on: one that there
    /// was no need for but for a while ends instead.
    async fn sleep(&self, runner: Runner) -> bool {
        let mut has_slept = false;
        poll_fn(|context: &mut Context<'_>| {
            let mut queue = self.queue.lock();
            if has_slept {
                let Some(sleeper) = queue.asleep.iter_mut().find(|sleeper| sleeper.index == runner.index)
                else {
                    return Poll::Ready(true);
                };
                sleeper.waker.clone_from(context.waker());
                return Poll::Pending;
            }
            if !queue.tasks.is_empty() {
                queue.coming += 1;
                return Poll::Ready(true);
            }
            has_slept = true;
            let is_needed = queue.awake == 1 && queue.asleep.is_empty();
            queue.leave();
            if runner.is_extra && !is_needed {
                return Poll::Ready(false);
            }
            queue.asleep.push(Sleeper { index: runner.index, waker: context.waker().clone() });
            Poll::Pending
        })
        .await
    }

    fn close(&self) {
        self.queue.lock().is_closed = true;
        (self.at_end)();
        self.drop_tasks();
    }

    fn drop_tasks(&self) {
        let tasks = std::mem::take(&mut self.queue.lock().tasks);
        drop(tasks);
    }
}

/// Closes the queue when a runner ends: with the runtime, or when it is stopped.
struct Closing(Arc<Shared>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// One of those that are there for good.
async fn run(shared: Arc<Shared>, index: usize) {
    let closing = Closing(shared);
    serve(&closing.0, Runner { index, is_extra: false }, false).await;
}

#[derive(Clone, Copy)]
struct Runner {
    index: usize,
    is_extra: bool,
}

/// What a runner does.
async fn serve(shared: &Arc<Shared>, runner: Runner, mut comes: bool) {
    loop {
        if shared.work(comes) {
            comes = false;
            tokio::task::yield_now().await;
        } else {
            if !shared.sleep(runner).await {
                return;
            }
            comes = true;
        }
    }
}

/// Looks at the runners for as long as there are any.
fn watch(shared: &Weak<Shared>) {
    let mut looks = Looks::default();
    let mut tick = IDLE_TICK;
    loop {
        std::thread::sleep(tick);
        let Some(shared) = shared.upgrade() else { return };
        let mut queue = shared.queue.lock();
        if queue.is_closed {
            return;
        }
        let (waker, has_rested) = looks.look(&mut queue);
        drop(queue);
        tick = if has_rested { IDLE_TICK } else { TICK };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// What the last look has seen of the runners.
#[derive(Debug, Default)]
struct Looks {
    was_awake: bool,
    rests: u64,
    eager_ticks: u32,
}

impl Looks {
    /// Returns the runner to wake where those that are awake have gone on since the last look, and whether all have slept
    /// since then.
    fn look(&mut self, queue: &mut Queue) -> (Option<Waker>, bool) {
        let is_awake = queue.awake > 0;
        let unchanged = queue.rests == self.rests && is_awake == self.was_awake;
        (self.was_awake, self.rests) = (is_awake, queue.rests);
        let went_on = is_awake && unchanged;
        self.eager_ticks = if went_on { EAGER_TICKS } else { self.eager_ticks.saturating_sub(1) };
        queue.is_eager = self.eager_ticks > 0;
        (if went_on { queue.wake() } else { None }, !is_awake && unchanged)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
    use std::sync::mpsc;

    use tokio::net::TcpListener;
    use tokio::runtime::{Builder, Runtime};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn runtime(workers: usize) -> Runtime {
        Builder::new_multi_thread().worker_threads(workers).enable_all().build().unwrap()
    }

    fn executor(runtime: &Runtime) -> Executor {
        let _inside = runtime.enter();
        Executor::start(|| ()).unwrap()
    }

    /// A runner that sleeps, and how often it was woken.
    fn sleeper(index: usize) -> (Sleeper, Arc<Woken>) {
        let woken = Arc::new(Woken(AtomicUsize::new(0)));
        (Sleeper { index, waker: Waker::from(Arc::clone(&woken)) }, woken)
    }

    struct Woken(AtomicUsize);

    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A queue with two runners that sleep, and one task.
    fn two_asleep() -> Queue {
        let asleep = vec![sleeper(0).0, sleeper(1).0];
        let (runnable, task) = async_task::spawn(async {}, |_| ());
        task.detach();
        Queue { tasks: VecDeque::from([runnable]), asleep, ..Queue::default() }
    }

    #[test]
    fn one_runner_is_woken_and_the_next_one_only_after_it_went_on_for_a_tick() {
        let mut queue = two_asleep();
        let mut looks = Looks::default();
        assert!(queue.whom_to_wake().is_some());
        assert!(queue.whom_to_wake().is_none(), "one is coming");
        queue.coming = 0;
        assert!(queue.whom_to_wake().is_none(), "one is enough");
        assert!(looks.look(&mut queue).0.is_none(), "it was not awake when looked at before");
        assert!(looks.look(&mut queue).0.is_some(), "it went on");
        assert_eq!((queue.awake, queue.coming, queue.asleep.len()), (2, 1, 0));
    }

    #[test]
    fn runners_wake_each_other_for_some_time_after_one_went_on_and_then_no_more() {
        let mut queue = two_asleep();
        (queue.awake, queue.is_eager) = (1, true);
        let mut looks = Looks { was_awake: true, rests: 0, eager_ticks: 2 };
        queue.rests = 1;
        assert!(looks.look(&mut queue).0.is_none());
        assert!(queue.whom_to_wake().is_some());
        (queue.coming, queue.rests) = (0, 2);
        assert!(looks.look(&mut queue).0.is_none());
        assert!(queue.whom_to_wake().is_none());
    }

    #[test]
    fn runners_that_sleep_are_looked_at_less_often() {
        let mut queue = two_asleep();
        let mut looks = Looks::default();
        assert!(looks.look(&mut queue).1);
        queue.rests += 1;
        assert!(!looks.look(&mut queue).1, "one was awake since");
        assert!(looks.look(&mut queue).1);
    }

    #[test]
    fn every_task_runs_to_its_end_whoever_wakes_it() {
        const TASKS: u64 = 200;
        const HOPS: u64 = 300;
        for workers in [1, 2, 4] {
            let runtime = runtime(workers);
            let executor = executor(&runtime);
            let hops = Arc::new(AtomicU64::new(0));
            let (done, ended) = mpsc::channel();
            for at in 0..TASKS {
                let (hops, done) = (Arc::clone(&hops), done.clone());
                let future = async move {
                    for hop in 0..HOPS {
                        match (at + hop) % 4 {
                            0 => tokio::task::yield_now().await,
                            1 => tokio::time::sleep(Duration::from_micros(hop)).await,
                            // Woken by a thread of its own, and while it runs.
                            2 => tokio::task::spawn_blocking(|| ()).await.unwrap(),
                            _ => {
                                let mut is_second = false;
                                poll_fn(|context: &mut Context<'_>| {
                                    context.waker().wake_by_ref();
                                    if std::mem::replace(&mut is_second, true) {
                                        Poll::Ready(())
                                    } else {
                                        Poll::Pending
                                    }
                                })
                                .await;
                            }
                        }
                        hops.fetch_add(1, Ordering::Relaxed);
                    }
                    done.send(()).unwrap();
                };
                executor.spawn(future).detach();
            }
            for _ in 0..TASKS {
                ended.recv_timeout(PATIENCE).expect("a task was not woken");
            }
            assert_eq!(hops.load(Ordering::Relaxed), TASKS * HOPS);
        }
    }

    #[test]
    fn a_task_that_is_stuck_keeps_nobody_from_its_socket() {
        let runtime = runtime(2);
        let executor = executor(&runtime);
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let mut peers = Vec::new();
        let (release, released) = mpsc::channel::<()>();
        let mut stuck_in = Some(released);
        let (arrived, stuck) = mpsc::channel();
        for _ in 0..2 {
            let peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (stream, _) = runtime.block_on(listener.accept()).unwrap();
            let (released, arrived) = (stuck_in.take(), arrived.clone());
            let echo = async move {
                loop {
                    stream.readable().await.unwrap();
                    let mut byte = [0];
                    match stream.try_read(&mut byte) {
                        Ok(0) => return,
                        Ok(_) => {}
                        Err(_) => continue,
                    }
                    if let Some(released) = &released {
                        arrived.send(()).unwrap();
                        let _ = released.recv();
                    }
                    assert_eq!(stream.try_write(&byte).unwrap(), 1);
                }
            };
            executor.spawn(echo).detach();
            peers.push(peer);
        }
        use std::io::{Read, Write};
        // Until all workers are at rest: one that is about to look at the sockets would do so again.
        std::thread::sleep(Duration::from_millis(200));
        peers[0].write_all(&[1]).unwrap();
        // Alone on the socket's worker: nothing else makes the runtime wake another one.
        stuck.recv_timeout(PATIENCE).unwrap();
        peers[1].set_read_timeout(Some(PATIENCE)).unwrap();
        for byte in 0..100 {
            let mut echoed = [0];
            peers[1].write_all(&[byte]).unwrap();
            peers[1].read_exact(&mut echoed).expect("nobody looks at the sockets");
            assert_eq!(echoed, [byte]);
        }
        drop(release);
        let mut echoed = [0];
        peers[0].set_read_timeout(Some(PATIENCE)).unwrap();
        peers[0].read_exact(&mut echoed).unwrap();
    }

    #[test]
    fn tasks_that_say_that_they_block_keep_nobody_waiting_however_many_they_are() {
        const WORKERS: usize = 2;
        let runtime = runtime(WORKERS);
        let executor = executor(&runtime);
        let blocked: Vec<_> = (0..3 * WORKERS)
            .map(|_| {
                let (release, released) = mpsc::channel::<()>();
                let (arrive, arrived) = mpsc::channel();
                let task = async move {
                    block_in_place(|| {
                        arrive.send(()).unwrap();
                        let _ = released.recv();
                    });
                    arrive.send(()).unwrap();
                };
                executor.spawn(task).detach();
                arrived.recv_timeout(PATIENCE).expect("it has no turn");
                (release, arrived)
            })
            .collect();
        let (done, ended) = mpsc::channel();
        executor.spawn(async move { done.send(()).unwrap() }).detach();
        ended.recv_timeout(PATIENCE).expect("it waits for those that are blocked");
        for (release, arrived) in blocked {
            drop(release);
            arrived.recv_timeout(PATIENCE).unwrap();
        }
        // The others are gone when nobody needs them any more.
        let at_rest = || {
            let queue = executor.shared.queue.lock();
            queue.awake == 0 && queue.coming == 0 && (1..=WORKERS + 1).contains(&queue.asleep.len())
        };
        let deadline = std::time::Instant::now() + PATIENCE;
        while !at_rest() {
            assert!(std::time::Instant::now() < deadline, "{:?}", executor.shared.queue.lock());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_panic_ends_its_task_alone() {
        let runtime = runtime(1);
        let executor = executor(&runtime);
        executor.spawn(async { panic!("as the test wants") }).detach();
        let (done, ended) = mpsc::channel();
        executor.spawn(async move { done.send(()).unwrap() }).detach();
        ended.recv_timeout(PATIENCE).unwrap();
    }

    #[test]
    fn tasks_are_dropped_with_their_handle_and_with_the_executor() {
        let runtime = runtime(2);
        let tasks = Arc::new(Mutex::new(Vec::new()));
        let known = Arc::clone(&tasks);
        let executor = {
            let _inside = runtime.enter();
            Executor::start(move || drop(std::mem::take(&mut *known.lock()))).unwrap()
        };
        let held = || {
            let (held, is_dropped) = mpsc::channel::<()>();
            let task = executor.spawn(async move {
                let _held = held;
                std::future::pending::<()>().await
            });
            (task, is_dropped)
        };
        let ended = Err(mpsc::RecvTimeoutError::Disconnected);
        let (task, is_dropped) = held();
        drop(task);
        assert_eq!(is_dropped.recv_timeout(PATIENCE), ended);
        let (task, is_dropped) = held();
        tasks.lock().push(task);
        executor.stop();
        assert_eq!(is_dropped.recv_timeout(PATIENCE), ended);
        // Nobody runs it any more.
        let (_task, is_dropped) = held();
        assert_eq!(is_dropped.recv_timeout(PATIENCE), ended);
    }
}
