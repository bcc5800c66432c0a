//! The faulty disk loses what it may lose, keeps what it must keep, and fails where it is told to.

use std::collections::BTreeSet;
use std::io::ErrorKind;

use super::*;

fn path(name: &str) -> PathBuf {
    Path::new("/").join(name)
}

/// A file whose name is safe.
fn file_on(disk: &FaultyDisk, name: &str) -> Arc<dyn File> {
    let file = disk.create(&path(name)).unwrap();
    disk.sync_directory(path(name).parent().unwrap()).unwrap();
    file
}

fn content(disk: &FaultyDisk, name: &str) -> Vec<u8> {
    disk.read_all(&path(name)).unwrap()
}

fn names(disk: &FaultyDisk) -> Vec<String> {
    let name = |path: &PathBuf| path.strip_prefix("/").unwrap().to_str().unwrap().to_owned();
    disk.files().keys().map(name).collect()
}

/// The disks that many seeds leave.
fn survivors(disk: &FaultyDisk) -> impl Iterator<Item = FaultyDisk> {
    (0..300).map(|seed| disk.power_cycle(Survival::Random(seed)))
}

#[test]
fn a_watcher_hears_of_each_point_before_it_is_done() {
    let points = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&points);
    let disk = FaultyDisk::new(1).watched(Arc::new(move |_| *counted.lock().unwrap() += 1));
    let file = file_on(&disk, "a");
    file.write_at(b"1", 0).unwrap();
    file.sync().unwrap();
    file.read_at(&mut [0], 0).unwrap();
    assert_eq!((*points.lock().unwrap(), disk.points()), (4, 4), "create, its directory, write and sync");
    assert_eq!(disk.journal(), [], "who watches keeps no journal");
}

mod data {
    use super::*;

    #[test]
    fn only_what_was_synced_survives_for_certain() {
        let disk = FaultyDisk::new(1);
        let file = file_on(&disk, "a");
        file.write_at(b"synced", 0).unwrap();
        file.sync().unwrap();
        file.write_at(b"CACHED and more", 0).unwrap();
        assert_eq!(content(&disk, "a"), b"CACHED and more");
        assert_eq!(content(&disk.power_cycle(Survival::None), "a"), b"synced");
        assert_eq!(content(&disk.power_cycle(Survival::All), "a"), b"CACHED and more");
        // What survived is safe: a second loss changes nothing.
        let second = disk.power_cycle(Survival::All).power_cycle(Survival::None);
        assert_eq!(content(&second, "a"), b"CACHED and more");
        assert_eq!(second.unsynced(), 0);
    }

    #[test]
    fn every_prefix_of_changes_can_survive() {
        let disk = FaultyDisk::new(1);
        let [a, b] = ["a", "b"].map(|name| file_on(&disk, name));
        a.write_at(b"1", 0).unwrap();
        b.write_at(b"2", 0).unwrap();
        a.write_at(b"3", 1).unwrap();
        disk.rename(&path("b"), &path("c")).unwrap();
        let found: Vec<_> = (0..=disk.unsynced())
            .map(|count| disk.power_cycle(Survival::Prefix(count)))
            .map(|disk| (content(&disk, "a"), disk.read_all(&path("b")).ok(), disk.read_all(&path("c")).ok()))
            .collect();
        let found =
            found.iter().map(|(a, b, c)| (a.as_slice(), b.as_deref(), c.as_deref())).collect::<Vec<_>>();
        let (none, two) = (Some(b"".as_slice()), Some(b"2".as_slice()));
        let expected: [(&[u8], _, _); 5] = [
            (b"", none, None),
            (b"1", none, None),
            (b"1", two, None),
            (b"13", two, None),
            (b"13", None, two),
        ];
        assert_eq!(found, expected);
    }

    /// Of 8 sectors written one after the other, any subset may be there, but never a part of one.
    #[test]
    fn unsynced_sectors_survive_whole_and_in_any_order() {
        let disk = FaultyDisk::new(1);
        let file = file_on(&disk, "a");
        file.set_len(4096).unwrap();
        file.sync().unwrap();
        for sector in 0..8 {
            file.write_at(&[1; 512], sector * 512).unwrap();
        }
        let mut seen = BTreeSet::new();
        for survivor in survivors(&disk) {
            let content = content(&survivor, "a");
            let mask = content.chunks(512).map(|sector| {
                assert!(sector.iter().all(|byte| *byte == sector[0]), "half a sector");
                char::from(b'0' + sector[0])
            });
            seen.insert(mask.collect::<String>());
        }
        assert!(seen.contains("00000000") && seen.contains("11111111"));
        assert!(seen.iter().any(|mask| mask.contains("01")), "nothing was reordered");
        assert!(seen.len() > 60, "{seen:?}");
    }

    /// One big write, unaligned: its first and last sectors hold old bytes, too.
    #[test]
    fn a_write_tears_at_sectors() {
        let disk = FaultyDisk::new(1);
        let file = file_on(&disk, "a");
        file.write_at(&[1; 2048], 0).unwrap();
        file.sync().unwrap();
        file.write_at(&[2; 1000], 300).unwrap();
        let mut seen = BTreeSet::new();
        for survivor in survivors(&disk) {
            let content = content(&survivor, "a");
            let runs: Vec<u8> = [300..512, 512..1024, 1024..1300]
                .into_iter()
                .map(|run| {
                    let first = content[run.start];
                    assert!(content[run].iter().all(|byte| *byte == first));
                    first
                })
                .collect();
            assert!(content[..300].iter().chain(&content[1300..]).all(|byte| *byte == 1));
            seen.insert(runs);
        }
        assert_eq!(seen.len(), 8);
    }

    /// The page cache holds one version of a sector at a time: the second write is never there
    /// without the first.
    #[test]
    fn a_sector_is_as_it_was_at_one_moment() {
        let disk = FaultyDisk::new(1);
        let file = file_on(&disk, "a");
        file.set_len(512).unwrap();
        file.sync().unwrap();
        for n in 0..3 {
            file.write_at(&[1], n).unwrap();
        }
        let seen: BTreeSet<_> = survivors(&disk).map(|disk| content(&disk, "a")[..3].to_vec()).collect();
        assert_eq!(seen, BTreeSet::from([vec![0, 0, 0], vec![1, 0, 0], vec![1, 1, 0], vec![1, 1, 1]]));
    }

    #[test]
    fn a_length_may_survive_without_its_content() {
        let disk = FaultyDisk::new(1);
        let file = file_on(&disk, "a");
        file.write_at(&[1; 512], 0).unwrap();
        file.write_at(&[1; 512], 512).unwrap();
        let seen: BTreeSet<_> = survivors(&disk).map(|disk| content(&disk, "a")).collect();
        let expected: BTreeSet<Vec<u8>> = [
            vec![],
            vec![0; 512],
            vec![1; 512],
            vec![0; 1024],
            vec![1; 1024],
            [[0; 512], [1; 512]].concat(),
            [[1; 512], [0; 512]].concat(),
        ]
        .into();
        assert!(seen == expected, "{} kinds", seen.len());
    }

    #[test]
    fn allocation_is_a_change_of_length() {
        let disk = FaultyDisk::new(1);
        let file = file_on(&disk, "a");
        file.allocate(10_000).unwrap();
        assert_eq!(content(&disk.power_cycle(Survival::None), "a"), b"");
        file.sync().unwrap();
        assert_eq!(content(&disk.power_cycle(Survival::None), "a"), vec![0; 10_000]);
    }

    #[test]
    fn what_was_cut_comes_back_only_before_the_sync() {
        let disk = FaultyDisk::new(1);
        let file = file_on(&disk, "a");
        file.write_at(&[1; 2000], 0).unwrap();
        file.sync().unwrap();
        file.set_len(100).unwrap();
        assert_eq!(content(&disk.power_cycle(Survival::None), "a").len(), 2000);
        file.write_at(&[2; 10], 1500).unwrap();
        for survivor in survivors(&disk) {
            let content = content(&survivor, "a");
            assert!([100, 1510, 2000].contains(&content.len()));
            if content.len() == 1510 {
                assert!(content[100..1500].iter().all(|byte| *byte == 0), "old bytes in new blocks");
            }
        }
        file.sync().unwrap();
        assert_eq!(content(&disk.power_cycle(Survival::None), "a").len(), 1510);
    }

    #[test]
    fn a_failed_sync_loses_what_it_should_have_saved() {
        let disk = FaultyDisk::new(1);
        let file = file_on(&disk, "a");
        file.write_at(b"before", 0).unwrap();
        file.sync().unwrap();
        file.write_at(b"lost", 6).unwrap();
        disk.fail_at(disk.points(), DiskFault::Error(ErrorKind::Other));
        file.sync().unwrap_err();
        assert_eq!(content(&disk, "a"), b"beforelost", "readers see what the cache has");
        file.sync().unwrap();
        file.write_at(b"after", 10).unwrap();
        file.sync().unwrap();
        assert_eq!(content(&disk, "a"), b"beforelostafter");
        for survival in [Survival::None, Survival::All, Survival::Random(1)] {
            assert_eq!(content(&disk.power_cycle(survival), "a"), b"before\0\0\0\0after");
        }
    }

    #[test]
    fn a_killed_process_loses_nothing_yet() {
        let disk = FaultyDisk::new(1);
        file_on(&disk, "a").write_at(b"cached", 0).unwrap();
        disk.create(&path("b")).unwrap();
        let next = disk.kill();
        assert_eq!(content(&next, "a"), b"cached");
        assert_eq!(names(&next), ["a", "b"]);
        let after = next.power_cycle(Survival::None);
        assert_eq!((content(&after, "a"), names(&after)), (Vec::new(), vec!["a".to_owned()]));
        next.open(&path("a")).unwrap().sync().unwrap();
        next.sync_directory(&path("")).unwrap();
        let after = next.power_cycle(Survival::None);
        assert_eq!((content(&after, "a").as_slice(), names(&after).len()), (b"cached".as_slice(), 2));
        assert_eq!(content(&disk.power_cycle(Survival::None), "a"), b"", "the old disk is its own");
    }
}

mod names {
    use super::*;

    #[test]
    fn a_name_survives_when_its_directories_were_synced() {
        let disk = FaultyDisk::new(1);
        disk.make_directory(&path("d/e")).unwrap();
        let file = disk.create(&path("d/e/a")).unwrap();
        file.write_at(b"x", 0).unwrap();
        file.sync().unwrap();
        let found = |disk: &FaultyDisk| names(&disk.power_cycle(Survival::None)).len();
        for directory in ["d/e", "d", ""] {
            assert_eq!(found(&disk), 0);
            disk.sync_directory(&path(directory)).unwrap();
        }
        assert_eq!(found(&disk), 1);
        assert_eq!(content(&disk.power_cycle(Survival::None), "d/e/a"), b"x");
    }

    #[test]
    fn of_changes_in_one_directory_the_first_few_survive() {
        let disk = FaultyDisk::new(1);
        disk.make_directory(&path("d")).unwrap();
        disk.sync_directory(&path("")).unwrap();
        for name in ["d/1", "d/2", "d/3"] {
            disk.create(&path(name)).unwrap();
            disk.create(&path(&name.replace("d/", "r"))).unwrap();
        }
        let seen: BTreeSet<_> = survivors(&disk).map(|disk| names(&disk).join(" ")).collect();
        let prefixes = |list: [&'static str; 3]| (0..=3).map(move |count| list[..count].join(" "));
        let allowed: BTreeSet<_> = prefixes(["d/1", "d/2", "d/3"])
            .flat_map(|d| prefixes(["r1", "r2", "r3"]).map(move |r| format!("{d} {r}").trim().to_owned()))
            .collect();
        assert_eq!(seen, allowed, "each directory by itself");
    }

    #[test]
    fn a_rename_is_done_wholly_or_not_at_all() {
        let disk = FaultyDisk::new(1);
        disk.make_directory(&path("d")).unwrap();
        for (name, bytes) in [("new", b"new"), ("d/old", b"old")] {
            let file = file_on(&disk, name);
            file.write_at(bytes, 0).unwrap();
            file.sync().unwrap();
        }
        disk.sync_directory(&path("")).unwrap();
        disk.rename(&path("new"), &path("d/old")).unwrap();
        let mut seen = BTreeSet::new();
        for survivor in survivors(&disk) {
            let left = (names(&survivor).join(" "), content(&survivor, "d/old"));
            assert!(
                left == ("d/old new".into(), b"old".into()) || left == ("d/old".into(), b"new".into()),
                "{left:?}"
            );
            seen.insert(left);
        }
        assert_eq!(seen.len(), 2);
    }

    #[test]
    fn a_rename_makes_no_content_safe() {
        let disk = FaultyDisk::new(1);
        file_on(&disk, "a.tmp").write_at(b"content", 0).unwrap();
        disk.rename(&path("a.tmp"), &path("a")).unwrap();
        disk.sync_directory(&path("")).unwrap();
        assert_eq!(content(&disk.power_cycle(Survival::None), "a"), b"");
    }

    #[test]
    fn syncing_one_side_of_a_rename_makes_safe_what_came_before_it() {
        let disk = FaultyDisk::new(1);
        disk.make_directory(&path("d")).unwrap();
        disk.sync_directory(&path("")).unwrap();
        disk.create(&path("d/1")).unwrap();
        disk.create(&path("a")).unwrap();
        disk.rename(&path("a"), &path("d/2")).unwrap();
        disk.create(&path("d/3")).unwrap();
        disk.create(&path("b")).unwrap();
        disk.sync_directory(&path("")).unwrap();
        assert_eq!(names(&disk.power_cycle(Survival::None)), ["b", "d/1", "d/2"]);
        assert_eq!(names(&disk.power_cycle(Survival::All)), ["b", "d/1", "d/2", "d/3"]);
    }

    #[test]
    fn an_unsynced_removal_may_be_undone() {
        let disk = FaultyDisk::new(1);
        for name in ["a", "b"] {
            let file = file_on(&disk, name);
            file.write_at(b"x", 0).unwrap();
            file.sync().unwrap();
        }
        disk.remove_file(&path("a")).unwrap();
        disk.remove_file(&path("b")).unwrap();
        assert_eq!((disk.used(), names(&disk).len()), (0, 0));
        let undone = disk.power_cycle(Survival::None);
        assert_eq!(
            (content(&undone, "a"), content(&undone, "b"), undone.used()),
            (b"x".into(), b"x".into(), 8192)
        );
        disk.sync_directory(&path("")).unwrap();
        assert_eq!(names(&disk.power_cycle(Survival::None)).len(), 0);
    }

    #[test]
    fn an_undone_removal_has_its_content_whatever_else_was_synced() {
        let disk = FaultyDisk::new(1);
        disk.make_directory(&path("d")).unwrap();
        disk.sync_directory(&path("")).unwrap();
        let file = file_on(&disk, "d/a");
        file.write_at(b"x", 0).unwrap();
        file.sync().unwrap();
        drop(file);
        disk.remove_file(&path("d/a")).unwrap();
        file_on(&disk, "b");
        assert_eq!(content(&disk.power_cycle(Survival::None), "d/a"), b"x");
    }

    #[test]
    fn numbers_are_not_given_twice_after_a_loss() {
        let disk = FaultyDisk::new(1);
        disk.create(&path("lost")).unwrap();
        let next = disk.power_cycle(Survival::None);
        file_on(&next, "new").write_at(b"new", 0).unwrap();
        file_on(&next, "newer").write_at(b"newer", 0).unwrap();
        assert_eq!(content(&next, "new"), b"new");
    }
}

mod faults {
    use super::*;

    /// Every kind of operation once. Stops at the first error.
    fn script(disk: &FaultyDisk) -> io::Result<()> {
        disk.make_directory(&path("d"))?;
        let file = disk.create(&path("d/a"))?;
        file.allocate(8192)?;
        file.write_at(&[1; 5000], 0)?;
        file.sync()?;
        file.set_len(5000)?;
        disk.rename(&path("d/a"), &path("b"))?;
        disk.sync_directory(&path(""))?;
        disk.remove_file(&path("b"))?;
        disk.remove_directory(&path("d"))
    }

    const POINTS: u64 = 10;

    #[test]
    fn every_operation_is_a_point_that_can_fail() {
        let healthy = FaultyDisk::new(1);
        script(&healthy).unwrap();
        assert_eq!(healthy.points(), POINTS);
        assert_eq!(healthy.journal().len() as u64, POINTS);
        for point in 0..POINTS {
            let disk = FaultyDisk::new(1);
            disk.fail_at(point, DiskFault::Error(ErrorKind::ResourceBusy));
            assert_eq!(script(&disk).unwrap_err().kind(), ErrorKind::ResourceBusy);
            assert_eq!(disk.points(), point + 1);
            let journal = disk.journal();
            assert_eq!(journal[..point as usize], healthy.journal()[..point as usize]);
            assert!(!journal[point as usize].done);
            assert!(journal[point as usize].to_string().contains("FAILED"));
            // Only this once, and the failed operation did not happen unless it was a write.
            if !matches!(journal[point as usize].operation, DiskOperation::MakeDirectory) {
                disk.list(&path("d")).unwrap();
            }
            disk.make_directory(&path("other")).unwrap();
        }
    }

    #[test]
    fn a_crash_ends_everything() {
        for point in 0..POINTS {
            let disk = FaultyDisk::new(1);
            let bystander = file_on(&disk, "bystander");
            disk.fail_at(disk.points() + point, DiskFault::Crash);
            script(&disk).unwrap_err();
            assert!(disk.is_off());
            let points = disk.points();
            for error in [
                bystander.read_at(&mut [0], 0).map(drop),
                bystander.len().map(drop),
                bystander.write_at(b"x", 0),
                bystander.sync(),
                disk.list(&path("")).map(drop),
                disk.open(&path("bystander")).map(drop),
                disk.remove_file(&path("bystander")),
                disk.free_bytes(&path("")).map(drop),
            ] {
                assert_eq!(error.unwrap_err().to_string(), "power lost");
            }
            assert_eq!(disk.points(), points, "nothing happens without power");
            let next = disk.power_cycle(Survival::None);
            assert!(!next.is_off());
            assert_eq!(next.points(), 0);
            next.open(&path("bystander")).unwrap();
        }
    }

    #[test]
    fn a_write_is_torn_by_a_crash_or_an_error() {
        for fault in [DiskFault::Crash, DiskFault::Error(ErrorKind::Other)] {
            let mut seen = BTreeSet::new();
            for seed in 0..100 {
                let disk = FaultyDisk::new(seed);
                let file = file_on(&disk, "a");
                file.set_len(1536).unwrap();
                file.sync().unwrap();
                disk.fail_at(disk.points(), fault);
                file.write_at(&[1; 1536], 0).unwrap_err();
                let left = content(&disk.power_cycle(Survival::All), "a");
                assert!(left.chunks(512).all(|sector| sector == [sector[0]; 512]));
                assert_eq!(content(&disk.power_cycle(Survival::None), "a"), [0; 1536]);
                seen.insert([left[0], left[512], left[1024]]);
            }
            assert_eq!(seen.len(), 8, "{fault:?}");
        }
    }

    #[test]
    fn a_sync_that_power_interrupts_may_have_worked() {
        let disk = FaultyDisk::new(1);
        let file = file_on(&disk, "a");
        file.write_at(b"x", 0).unwrap();
        disk.fail_at(disk.points(), DiskFault::Crash);
        file.sync().unwrap_err();
        assert_eq!(content(&disk.power_cycle(Survival::None), "a"), b"");
        assert_eq!(content(&disk.power_cycle(Survival::All), "a"), b"x");
    }

    #[test]
    fn forgotten_plans_do_not_happen() {
        let disk = FaultyDisk::new(1);
        disk.fail_at(disk.points(), DiskFault::Error(ErrorKind::Other));
        disk.forget_plans();
        script(&disk).unwrap();
    }

    #[test]
    fn errors_last_until_they_are_healed() {
        let disk = FaultyDisk::new(1);
        let file = file_on(&disk, "a");
        disk.fail_at(disk.points() + 1, DiskFault::ErrorsFrom(ErrorKind::ReadOnlyFilesystem));
        file.write_at(b"x", 0).unwrap();
        for _ in 0..3 {
            assert_eq!(file.sync().unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
        }
        file.len().unwrap();
        disk.heal();
        file.sync().unwrap();
    }

    #[test]
    fn faults_may_follow_each_other() {
        let disk = FaultyDisk::new(1);
        disk.fail_at(0, DiskFault::Error(ErrorKind::Other));
        disk.fail_at(2, DiskFault::Crash);
        disk.create(&path("a")).unwrap_err();
        disk.create(&path("a")).unwrap();
        disk.create(&path("b")).unwrap_err();
        assert!(disk.is_off());
    }

    #[test]
    fn a_full_disk_takes_what_fits_and_goes_on_when_there_is_room() {
        let disk = FaultyDisk::new(1);
        let file = file_on(&disk, "a");
        file.allocate(8192).unwrap();
        disk.fail_at(disk.points(), DiskFault::FullAfter(8192));
        file.write_at(&[1; 4096], 0).unwrap();
        assert_eq!(disk.free_bytes(&path("")).unwrap(), 8192);
        assert_eq!(file.write_at(&[1; 20_000], 4000).unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!((file.len().unwrap(), disk.used()), (16_384, 16_384));
        file.write_at(&[2; 8192], 0).unwrap();
        file.sync().unwrap();
        assert_eq!(file.allocate(16_385).unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(disk.create(&path("b")).map(drop).unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(disk.make_directory(&path("d")).unwrap_err().kind(), ErrorKind::StorageFull);
        disk.rename(&path("a"), &path("c")).unwrap();
        assert_eq!(file.len().unwrap(), 16_384);
        disk.set_capacity(Some(24_576));
        file.write_at(&[1; 8192], 16_384).unwrap();
        assert_eq!(file.write_at(&[1; 1], 24_576).unwrap_err().kind(), ErrorKind::StorageFull);
        file.set_len(4097).unwrap();
        assert_eq!(disk.used(), 8192);
        assert_eq!(disk.kill().used(), 8192);
        assert_eq!(disk.kill().free_bytes(&path("")).unwrap(), 16_384);
    }

    #[test]
    fn a_removed_file_costs_space_until_it_is_closed() {
        let disk = FaultyDisk::new(1);
        let file = file_on(&disk, "a");
        file.write_at(&[1; 5000], 0).unwrap();
        let second = disk.open(&path("a")).unwrap();
        disk.remove_file(&path("a")).unwrap();
        drop(file);
        assert_eq!(disk.used(), 8192);
        assert_eq!(disk.kill().used(), 0);
        drop(second);
        assert_eq!(disk.used(), 0);
    }

    #[test]
    fn holes_are_paid_when_they_are_written() {
        let disk = FaultyDisk::new(1);
        disk.set_capacity(Some(8192));
        let file = file_on(&disk, "a");
        file.set_len(1 << 20).unwrap();
        assert_eq!(disk.used(), 0);
        file.write_at(&[1; 4097], 4096).unwrap();
        assert_eq!(file.write_at(&[1], 0).unwrap_err().kind(), ErrorKind::StorageFull);
    }

    #[test]
    fn equal_seeds_and_operations_give_equal_disks() {
        let run = |seed| {
            let disk = FaultyDisk::new(seed);
            disk.fail_at(3, DiskFault::Error(ErrorKind::Other));
            let _ = script(&disk);
            let file = disk.create(&path("x")).unwrap();
            for n in 0..50 {
                file.write_at(&[n; 300], u64::from(n) * 200).unwrap();
            }
            let left = disk.power_cycle(Survival::Random(seed));
            let contents: Vec<_> =
                left.files().into_keys().map(|path| left.read_all(&path).unwrap()).collect();
            (disk.journal(), left.files(), contents, disk.read_all(&path("d/a")).unwrap())
        };
        assert!(run(5) == run(5));
        let different: Vec<_> = (0..20).map(run).collect();
        assert!(different.iter().any(|one| *one != different[0]));
    }
}

mod damage {
    use super::*;

    #[test]
    fn places_that_cannot_be_read_are_errors_and_nothing_else_is() {
        let disk = FaultyDisk::new(1);
        let file = file_on(&disk, "a");
        file.write_at(&[1; 1000], 0).unwrap();
        file.sync().unwrap();
        disk.fail_reads(&path("a"), 512..900).unwrap();
        for disk in [disk.clone(), disk.kill(), disk.power_cycle(Survival::None)] {
            let file = disk.open(&path("a")).unwrap();
            let read = |offset, length| file.read_at(&mut vec![0; length], offset);
            assert_eq!(
                (read(0, 512).unwrap(), read(900, 200).unwrap(), read(1000, 5).unwrap()),
                (512, 100, 0)
            );
            for (offset, length) in [(0, 513), (600, 1), (899, 200), (0, 2000)] {
                assert_eq!(read(offset, length).unwrap_err().raw_os_error(), Some(5));
            }
            disk.fail_reads(&path("a"), 0..0).unwrap();
            assert_eq!(read(0, 2000).unwrap(), 1000);
            disk.fail_reads(&path("a"), 512..900).unwrap();
        }
    }

    #[test]
    fn differences_are_found() {
        let disk = FaultyDisk::new(1);
        file_on(&disk, "a").write_at(b"x", 5).unwrap();
        let other = disk.kill();
        assert_eq!(disk.difference(&other), None);
        file_on(&other, "b");
        assert_eq!(disk.difference(&other), Some(path("b")));
        assert_eq!(other.difference(&disk), Some(path("b")));
        disk.flip_bit(&path("a"), 0, 3).unwrap();
        assert_eq!(disk.difference(&other), Some(path("a")));
    }

    #[test]
    fn content_changes_behind_everybodys_back() {
        let disk = FaultyDisk::new(1);
        for (name, bytes) in [("a", b"aaaa"), ("b", b"bbbb")] {
            let file = file_on(&disk, name);
            file.write_at(bytes, 0).unwrap();
            file.sync().unwrap();
        }
        disk.flip_bit(&path("a"), 1, 0).unwrap();
        disk.zero(&path("b"), 3..100).unwrap();
        assert_eq!(
            (content(&disk, "a").as_slice(), content(&disk, "b").as_slice()),
            (&b"a`aa"[..], &b"bbb\0"[..])
        );
        disk.swap(&path("a"), &path("b")).unwrap();
        disk.truncate(&path("a"), 2).unwrap();
        assert_eq!(disk.flip_bit(&path("a"), 2, 0).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        for disk in [disk.clone(), disk.power_cycle(Survival::None)] {
            assert_eq!(
                (content(&disk, "a").as_slice(), content(&disk, "b").as_slice()),
                (&b"bb"[..], &b"a`aa"[..])
            );
        }
        let next = disk.power_cycle(Survival::None);
        assert_eq!(next.unsynced(), 0);
        assert_eq!(disk.read_all(&path("c")).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
