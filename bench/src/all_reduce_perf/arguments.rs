//! The command line.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use pccl::{Tcp, Transport};
use pccl_master::MasterConfig;

use super::hosts::Hosts;
use super::over::Over;
use super::rank::Assignment;
use super::work::Work;
use crate::bytes::bytes;

/// Measure all-reduce over the processes of this machine, beside bare exchanges of the same run.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    /// Numbers of peers.
    #[arg(long, value_delimiter = ',', default_values_t = [2, 4, 8], value_parser = peers)]
    pub(crate) peers: Vec<usize>,
    /// Numbers of lanes per ring edge; the library takes as many of them as carry more. Within a machine a reduce uses
    /// one: see --far. Default: what the library asks for over TCP on this system.
    #[arg(long, value_delimiter = ',', default_values_t = [Tcp::new().lanes_per_edge()], hide_default_value = true, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) lanes: Vec<u16>,
    /// The smallest buffer, with K, M or G for powers of 1024.
    #[arg(long, default_value = "4K", value_parser = bytes)]
    pub(crate) min_bytes: usize,
    /// The largest buffer.
    #[arg(long, default_value = "64M", value_parser = bytes)]
    pub(crate) max_bytes: usize,
    /// From one size to the next.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..))]
    pub(crate) step_factor: u32,
    /// Iterations that count, for every size. Default: fewer of the larger ones.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) iters: Option<u32>,
    /// Iterations before those that count. Default: by size.
    #[arg(long)]
    pub(crate) warmup: Option<u32>,
    /// What the lanes are: tcp is plain, the others encrypt. The floor stays plain.
    #[arg(long, value_enum, default_value_t = Over::Tcp)]
    pub(crate) transport: Over,
    #[command(flatten)]
    pub(crate) hosts: Hosts,
    /// The site of each rank, from rank 0 on; begun again after the last one. Default: none.
    #[arg(long, value_delimiter = ',')]
    pub(crate) sites: Vec<String>,
    /// Most peers of a group that has links between all of its members, for the master.
    #[arg(long, value_name = "PEERS", default_value_t = MasterConfig::default().mesh_max)]
    pub(crate) max_mesh: u16,
    /// Most bytes that a repeated collective may send to a peer that has not called it, for the master; 0: none begins
    /// before all have called it.
    #[arg(long, value_name = "BYTES", default_value_t = MasterConfig::default().ahead_max)]
    pub(crate) max_ahead: u64,
    /// After all sizes: optimize the topology, and measure all sizes again. The ring before goes from each rank
    /// to the next one.
    #[arg(long)]
    pub(crate) optimize: bool,
    /// Leave out the floor: bare exchanges over plain sockets.
    #[arg(long)]
    pub(crate) no_floor: bool,
    /// Measure each size with every algorithm that can carry it, in turns, and show what the master would choose.
    /// Without the floor.
    #[arg(long, conflicts_with_all = ["algorithm", "concurrent", "plot"])]
    pub(crate) every_algorithm: bool,
    #[command(flatten)]
    pub(crate) work: Work,
    /// Write everything to this file as JSON, too.
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
    /// Draw throughput over size into this file.
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) role: Option<Role>,
}

/// What a process of this program is, where it is not the one that the user has started.
#[derive(Debug, Subcommand)]
pub(crate) enum Role {
    /// The master of a run.
    #[command(hide = true)]
    Master {
        #[arg(long)]
        host: IpAddr,
        #[arg(long, value_enum)]
        transport: Over,
        #[arg(long)]
        max_mesh: u16,
        #[arg(long)]
        max_ahead: u64,
    },
    /// A peer, which is also a rank of the floor.
    #[command(hide = true)]
    Rank(Assignment),
}

impl Arguments {
    /// Does it all fit together?
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        if self.min_bytes > self.max_bytes {
            return Err("--min-bytes is more than --max-bytes");
        }
        if !self.peers.iter().all(|peers| self.work.is_exact(*peers)) {
            return Err(
                "sums of so many peers are not exact in this type, so they cannot be checked",
            );
        }
        if !self.peers.iter().all(|peers| self.work.is_bounded(*peers)) {
            return Err("compressed results of so many peers may be off by anything");
        }
        self.work.check()
    }

    /// The site of a rank. Empty: none.
    pub(crate) fn site_of(&self, rank: usize) -> &str {
        let place = rank.checked_rem(self.sites.len());
        let site = place.and_then(|place| self.sites.get(place));
        site.map_or("", String::as_str)
    }

    pub(crate) const fn is_without_floor(&self) -> bool {
        self.no_floor || self.every_algorithm
    }

    /// The buffers to be reduced, in elements.
    pub(crate) fn counts(&self) -> Vec<usize> {
        let mut bytes = Some(self.min_bytes);
        let mut counts = Vec::new();
        while let Some(size) = bytes.filter(|size| *size <= self.max_bytes) {
            counts.push((size / self.work.element.size()).max(1));
            bytes = size.checked_mul(self.step_factor as usize);
        }
        counts
    }
}

fn peers(text: &str) -> Result<usize, String> {
    let peers: usize = text.parse().map_err(|_| "not a number".to_owned())?;
    if (2..=64).contains(&peers) {
        Ok(peers)
    } else {
        Err("from 2 to 64".into())
    }
}
