//! Seeds of clusters whose disks lose what was confirmed: in a process of their own, for that goes
//! for all seeds of one. Their faults stand in docs/simulation/found.md.

use myelin_sim::cluster;

#[test]
fn seeds_that_found_something_of_damage_stay_well() {
    cluster::damage_disks();
    for (seed, operations) in [(130_043, 80), (130_087, 125), (130_163, 45), (141_626, 400)] {
        if let Err(wrong) = cluster::run(seed, operations) {
            panic!("seed {seed}, with --damage: after {} operations: {}", wrong.operation, wrong.why);
        }
    }
}
