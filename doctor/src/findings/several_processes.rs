//! The evidence is of more than one JVM: then figures that are put side by side may not belong together.

use std::collections::BTreeMap;

use super::{Facts, Finding, Severity, text};
use crate::evidence::{Evidence, Found};

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let evidence: &Evidence = facts.evidence;
    let mut processes: BTreeMap<u32, usize> = BTreeMap::new();
    fn add<T>(processes: &mut BTreeMap<u32, usize>, found: &[Found<T>]) {
        for found in found {
            if let Some(id) = found.process_id {
                processes.entry(id).or_insert(found.file);
            }
        }
    }
    add(&mut processes, &evidence.vm_flags);
    add(&mut processes, &evidence.command_lines);
    add(&mut processes, &evidence.versions);
    add(&mut processes, &evidence.system_properties);
    add(&mut processes, &evidence.native_memory);
    add(&mut processes, &evidence.class_histograms);
    add(&mut processes, &evidence.heap_infos);
    add(&mut processes, &evidence.thread_prints);
    if processes.len() < 2 {
        return None;
    }
    let ids: Vec<_> = processes.keys().take(10).map(u32::to_string).collect();
    let ids = ids.join(", ");
    Some(Finding {
        id: "several-processes",
        severity: Severity::Note,
        title: text!("The evidence is of several processes: {ids}", "证据来自多个进程：{ids}"),
        cause: text!(
            "jcmd writes the process id above its output. Findings that compare figures of two files hold only if both \
             belong to the same JVM; give the files of one process at a time.",
            "jcmd 在输出前写有进程号。比较两个文件数字的结论只有在二者属于同一个 JVM 时才成立；请一次只给一个进程的文件。"
        ),
        evidence: processes
            .iter()
            .take(10)
            .map(|(id, file)| facts.proof(*file, 1, format!("{id}:")))
            .collect(),
        remedies: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use crate::findings::tests::one;

    #[test]
    fn two_process_ids_are_noticed() {
        let flags = |id: u32| format!("{id}:\n-XX:+UseG1GC\n");
        assert!(one("several-processes", &[&flags(7), &flags(8)]).unwrap().title.en.contains("7, 8"));
        assert!(one("several-processes", &[&flags(7), &flags(7)]).is_none());
    }
}
