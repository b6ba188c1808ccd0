//! What a dump can prove. A truncated or redacted one proves less; each conclusion says why.

use crate::heap::Heap;
use crate::language::{Text, text};

use super::Account;

/// Whether a conclusion holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// It does.
    Yes,
    /// What is reported is there; there may be more.
    AtLeast,
    /// The dump does not say.
    No,
}

impl Holds {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::AtLeast => "at_least",
            Self::No => "no",
        }
    }
}

/// A conclusion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conclusion {
    /// Its name in JSON.
    pub id: &'static str,
    /// What is concluded.
    pub what: Text,
    /// Whether it holds.
    pub holds: Holds,
    /// Why it is so.
    pub why: Text,
}

fn redacted() -> Text {
    text!("all numbers of the dump are redacted", "转储中的数字已全部脱敏")
}

pub(super) fn conclude(heap: &Heap, account: &Account) -> Vec<Conclusion> {
    let condition = &heap.condition;
    let complete = condition.is_complete();
    let damage = || {
        if let Some(missing) = condition.truncated {
            return text!(
                "the dump is cut off, {missing} bytes or more are missing",
                "转储被截断，至少缺少 {missing} 字节"
            );
        }
        if let Some(problem) = &condition.gzip_problem {
            return problem.clone();
        }
        if condition.overflow {
            return text!(
                "there are more objects of interest than the limit allows",
                "需要关注的对象超过了允许的数量"
            );
        }
        if condition.end_missing {
            return text!(
                "the record that ends a dump is missing: its writer was interrupted",
                "缺少转储的结束记录：写入时被中断"
            );
        }
        text!("a part of the dump cannot be read", "转储有一部分无法读取")
    };
    let mut conclusions = Vec::new();
    let mut add = |id, what, holds, why: Text| conclusions.push(Conclusion { id, what, holds, why });

    let pool = text!("how much the direct pool holds, and its limit", "直接内存池占用多少，上限是多少");
    match (heap.statics.direct, condition.numbers_redacted) {
        (_, true) => add("pool", pool, Holds::No, redacted()),
        (Some(_), _) => add(
            "pool",
            pool,
            Holds::Yes,
            text!("from the static fields of java.nio.Bits", "来自 java.nio.Bits 的静态字段"),
        ),
        (None, _) => add(
            "pool",
            pool,
            Holds::No,
            text!("the dump lacks the fields of java.nio.Bits", "转储中没有 java.nio.Bits 的字段"),
        ),
    }

    let sum = text!("that every buffer of the pool is in this account", "池中的每个缓冲区都已计入本清单");
    let exact = account.direct.is_exact();
    match (account.direct.difference(), exact) {
        _ if condition.numbers_redacted => add("sum", sum, Holds::No, redacted()),
        (_, true) => add(
            "sum",
            sum,
            Holds::Yes,
            text!("the sum of the buffers is the pool to the byte", "缓冲区之和与池的计数逐字节一致"),
        ),
        (Some((bytes, _, count)), _) => {
            let cause = if complete {
                text!(
                    "buffers that were made or freed during the dump are counted by the pool and not found",
                    "转储期间分配或释放的缓冲区计入池，但在转储中找不到"
                )
            } else {
                damage()
            };
            add(
                "sum",
                sum,
                Holds::AtLeast,
                text!(
                    "{bytes} bytes and {count} buffers differ: {cause}",
                    "相差 {bytes} 字节、{count} 个缓冲区：{cause}"; cause
                ),
            );
        }
        (None, _) if complete => {
            add("sum", sum, Holds::Yes, text!("every object of the dump was read", "已读取转储中的每个对象"))
        }
        (None, _) => add("sum", sum, Holds::AtLeast, damage()),
    }

    let threads = text!("which threads keep which buffers", "哪些线程保留哪些缓冲区");
    if condition.numbers_redacted {
        add("threads", threads, Holds::No, redacted());
    } else if heap.threads.is_empty() {
        add(
            "threads",
            threads,
            Holds::No,
            text!("the dump has no objects of java.lang.Thread", "转储中没有 java.lang.Thread 对象"),
        );
    } else if complete || exact && account.sum(super::Class::Unknown).count == 0 {
        add("threads", threads, Holds::Yes, text!("from the threads' own variables", "来自线程自身的变量"));
    } else {
        add("threads", threads, Holds::AtLeast, damage());
    }
    if condition.names_redacted {
        let why = text!(
            "the dump has no names of threads; they are grouped by class",
            "转储中没有线程名；按类分组"
        );
        add("names", text!("what the threads are for", "线程的用途"), Holds::No, why);
    }

    let in_flight = text!("which buffers are in flight", "哪些缓冲区正在传输中");
    if heap.condition.thread_roots == 0 {
        let why = if complete {
            text!("the dump has no stacks", "转储中没有线程栈")
        } else {
            let damage = damage();
            text!("the dump has no stacks: {damage}", "转储中没有线程栈：{damage}"; damage)
        };
        add("in_flight", in_flight, Holds::No, why);
    } else if complete {
        add("in_flight", in_flight, Holds::Yes, text!("from the stacks of the threads", "来自线程栈"));
    } else {
        add("in_flight", in_flight, Holds::AtLeast, damage());
    }

    let holders =
        text!("who holds the other buffers, and which are garbage", "其余缓冲区由谁持有，哪些是垃圾");
    if condition.proves_garbage() {
        add(
            "holders",
            holders,
            Holds::Yes,
            text!("every reference of the dump was looked at", "已检查转储中的每个引用"),
        );
    } else if complete {
        let why = match heap.condition.thread_roots {
            0 => text!(
                "the dump has no stacks: what only a stack holds has no holder here",
                "转储中没有线程栈：仅由线程栈持有的缓冲区在此没有持有者"
            ),
            _ => text!(
                "the dump lacks the stacks of virtual threads, as JDK 21 and before write it: what only they hold has no holder here",
                "转储中缺少虚拟线程的栈（JDK 21 及更早版本如此）：仅由其持有的缓冲区在此没有持有者"
            ),
        };
        add("holders", holders, Holds::AtLeast, why);
    } else {
        let damage = damage();
        let why = text!(
            "{damage}; that no holder was found proves nothing",
            "{damage}；找不到持有者并不能证明什么"; damage
        );
        add("holders", holders, Holds::AtLeast, why);
    }
    conclusions
}
