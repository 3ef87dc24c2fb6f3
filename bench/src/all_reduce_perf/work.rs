//! What every rank has to know: what is reduced, and how.

use std::fmt;

use pccl::{
    Algorithm, Broadcast, Checksums, ElementType, Gather, PeerId, Quantization, Reduce, ReduceOp,
    Shard,
};

use super::collective::Collective;
use super::contribution::largest;

/// The peer of rank 0: ranks join one after the other.
const FIRST: PeerId = PeerId(1);

const OPERATIONS: [ReduceOp; 5] = [
    ReduceOp::Sum,
    ReduceOp::Avg,
    ReduceOp::Prod,
    ReduceOp::Max,
    ReduceOp::Min,
];

/// Compressions, by the names that they have here.
const COMPRESSIONS: [Compression; 5] = {
    let (u8, u16, i8) = (ElementType::U8, ElementType::U16, ElementType::I8);
    let (min_max_u8, min_max_u16) = (
        Quantization::MinMax { to: u8 },
        Quantization::MinMax { to: u16 },
    );
    let (zero_point_u8, zero_point_i8) = (
        Quantization::ZeroPointScale { to: u8 },
        Quantization::ZeroPointScale { to: i8 },
    );
    [
        Compression::new("u8", min_max_u8),
        Compression::new("u16", min_max_u16),
        Compression::new("zp-u8", zero_point_u8),
        Compression::new("zp-i8", zero_point_i8),
        Compression::new("4bit", Quantization::Blockwise4),
    ]
};

/// The reduce that is measured. Parsed from the command line of the user, and again from that of
/// each rank.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Work {
    /// What is measured. An all-gather and a broadcast work in place.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) collective: Collective,
    /// Type of the elements: u8 to u64, i8 to i64, f16, bf16, f32, f64.
    #[arg(long = "type", default_value = "f32", value_parser = element)]
    pub(crate) element: ElementType,
    /// What is computed: sum, avg, prod, max, min.
    #[arg(long, default_value = "sum", value_parser = operation)]
    pub(crate) op: ReduceOp,
    /// Compress what travels: u8, u16 (min-max), zp-u8, zp-i8 (zero point and
    /// scale), 4bit (min-max of each 64 elements).
    #[arg(long, value_parser = compression)]
    pub(crate) quantize: Option<Compression>,
    /// How the data is to travel, if it can: ring, direct, circulant, two-level, two-level-ring, two-level-whole,
    /// whole-ring, whole-direct, whole-circulant, relay. Default: the master chooses.
    #[arg(long, value_parser = algorithm)]
    pub(crate) algorithm: Option<Algorithm>,
    /// Add in the order of the peer ids, whatever the ring and the algorithm.
    #[arg(long)]
    pub(crate) ordered: bool,
    /// Reduces that run at once, each of the size of the row. In place only.
    #[arg(long, default_value_t = 1, value_parser = concurrent)]
    pub(crate) concurrent: usize,
    /// Rest for so many milliseconds before each iteration, as a training loop computes between two reduces.
    #[arg(long, default_value_t = 0)]
    pub(crate) pause_ms: u64,
    /// Replace the contribution by the result, which costs a backup of what is overwritten. The buffers
    /// of an all-gather and of a broadcast hold both, and without this option they are not backed up.
    #[arg(long)]
    pub(crate) in_place: bool,
    /// TCP congestion control, of the lanes and of the floor's connections. Default: the library chooses per
    /// lane.
    #[arg(long)]
    pub(crate) congestion: Option<String>,
    /// Let the lanes deny that both their ends are on this machine. Within a machine a reduce uses one
    /// lane, whatever --lanes says; this measures the way of many lanes, as between machines.
    #[arg(long)]
    pub(crate) far: bool,
    /// Which lanes carry checksums: never (none), between-machines (plain ones to other machines), always (all plain
    /// ones). Default: between-machines.
    #[arg(long, default_value = "between-machines", value_parser = checksums)]
    pub(crate) checksums: Checksums,
    /// Keep each rank on one core, by turns. Small reduces take half as long again between cores as on
    /// one; otherwise the system decides, and may decide differently for ours and for the floor.
    #[arg(long)]
    pub(crate) bind: bool,
}

impl Work {
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        if self.quantize.is_some() && self.error_bound(2).is_none() {
            return Err("--quantize needs a type of floating-point numbers");
        }
        if self.ordered && (self.quantize.is_some() || !self.collective.reduces()) {
            return Err("--ordered needs a collective that reduces, and no --quantize");
        }
        if self.concurrent > 1 && self.collective != Collective::AllReduce {
            return Err("--concurrent is for all-reduces");
        }
        Ok(())
    }

    /// Do all partial results of so many peers' contributions fit into the type without rounding?
    pub(crate) fn is_exact(&self, peers: usize) -> bool {
        let adds = matches!(self.op, ReduceOp::Sum | ReduceOp::Avg);
        let largest = peers as i64 * largest(self.op);
        // Whole numbers are exact up to two to the power of the significand's bits.
        match self.element {
            ElementType::BF16 => !adds || largest <= 1 << 8,
            ElementType::F16 => !adds || largest <= 1 << 11,
            ElementType::F32 | ElementType::F64 => true,
            // These wrap, and wrapping comes to the same in every order.
            ElementType::U8
            | ElementType::I8
            | ElementType::U16
            | ElementType::I16
            | ElementType::U32
            | ElementType::I32
            | ElementType::U64
            | ElementType::I64 => true,
        }
    }

    /// How far a result of so many peers may be from the exact one, as the library promises. `None`: not
    /// at all, or the compression does not go with the type.
    pub(crate) fn error_bound(&self, peers: usize) -> Option<f64> {
        let largest = largest(self.op) as f64;
        match self.collective.reduces() {
            true => self.reduce(0).error_bound(self.element, peers, largest),
            false => self.spread().error_bound(self.element, largest),
        }
    }

    /// Can a result of so many peers be checked?
    pub(crate) fn is_bounded(&self, peers: usize) -> bool {
        self.error_bound(peers).is_none_or(f64::is_finite)
    }

    /// The calls that reduce many buffers at once work in place, and those that reduce nothing.
    pub(crate) fn is_in_place(&self) -> bool {
        let reduces = match self.collective {
            Collective::AllReduce | Collective::ReduceScatter => true,
            Collective::AllGather | Collective::Broadcast => false,
        };
        self.in_place || self.concurrent > 1 || !reduces
    }

    /// Are the buffers restored after a failure?
    pub(crate) fn is_backed_up(&self) -> bool {
        match self.collective {
            Collective::AllReduce | Collective::ReduceScatter => self.is_in_place(),
            Collective::AllGather | Collective::Broadcast => self.in_place,
        }
    }

    /// The reduce with this tag.
    pub(crate) fn reduce(&self, tag: u64) -> Reduce {
        let reduce = match self.op {
            ReduceOp::Sum => Reduce::sum(),
            ReduceOp::Avg => Reduce::avg(),
            ReduceOp::WeightedAvg { own, .. } => Reduce::weighted_avg(own),
            ReduceOp::Prod => Reduce::prod(),
            ReduceOp::Max => Reduce::max(),
            ReduceOp::Min => Reduce::min(),
        };
        let reduce = reduce.tag(tag).quantize(self.quantization());
        let reduce = match self.algorithm {
            Some(wish) => reduce.algorithm(wish),
            None => reduce,
        };
        if self.ordered {
            reduce.ordered()
        } else {
            reduce
        }
    }

    /// The gather of this shard.
    pub(crate) fn gather(&self, shard: Shard) -> Gather {
        let gather = Gather::of(shard).quantize(self.quantization());
        let gather = match self.algorithm {
            Some(wish) => gather.algorithm(wish),
            None => gather,
        };
        match self.is_backed_up() {
            true => gather,
            false => gather.without_backup(),
        }
    }

    /// The broadcast of rank 0.
    pub(crate) fn spread(&self) -> Broadcast {
        let broadcast = Broadcast::from(FIRST).quantize(self.quantization());
        let broadcast = match self.algorithm {
            Some(wish) => broadcast.algorithm(wish),
            None => broadcast,
        };
        match self.is_backed_up() {
            true => broadcast,
            false => broadcast.without_backup(),
        }
    }

    fn quantization(&self) -> Quantization {
        let compression = self.quantize.map(|compression| compression.quantization);
        compression.unwrap_or(Quantization::None)
    }

    /// What lanes within a machine ask for, and the connections of the floor as well.
    pub(crate) fn local_congestion(&self) -> &str {
        self.congestion.as_deref().unwrap_or("reno")
    }

    /// What the connections of the floor ask for. Between machines: nothing, if the user does not.
    pub(crate) fn congestion_of_floor(&self, is_loopback: bool) -> Option<&str> {
        let local = is_loopback.then(|| self.local_congestion());
        self.congestion.as_deref().or(local)
    }

    /// As it stands on a command line.
    pub(crate) fn to_arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            format!("--collective={}", self.collective),
            format!("--type={}", self.element),
            format!("--op={}", self.op),
            format!("--concurrent={}", self.concurrent),
            format!("--pause-ms={}", self.pause_ms),
        ];
        let algorithm = self.algorithm;
        arguments.extend(algorithm.map(|wish| format!("--algorithm={wish}")));
        arguments.extend(self.quantize.map(|by| format!("--quantize={}", by.name)));
        arguments.extend(self.ordered.then(|| "--ordered".to_owned()));
        arguments.extend(self.in_place.then(|| "--in-place".to_owned()));
        arguments.extend(self.far.then(|| "--far".to_owned()));
        arguments.extend(self.bind.then(|| "--bind".to_owned()));
        let checksums = CHECKSUMS.into_iter().find(|(_, on)| *on == self.checksums);
        arguments.extend(checksums.map(|(name, _)| format!("--checksums={name}")));
        let congestion = self.congestion.as_ref();
        arguments.extend(congestion.map(|name| format!("--congestion={name}")));
        arguments
    }
}

/// What is measured, in a few words.
impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.collective, self.element)?;
        if self.collective.reduces() {
            write!(f, ", {}", self.op)?;
        }
        if let Some(by) = self.quantize {
            write!(f, ", quantized to {}", by.name)?;
        }
        f.write_str(if self.ordered { ", ordered" } else { "" })
    }
}

/// A quantization: its name here, and what the library calls it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compression {
    pub(crate) name: &'static str,
    quantization: Quantization,
}

impl Compression {
    const fn new(name: &'static str, quantization: Quantization) -> Self {
        Self { name, quantization }
    }
}

fn element(text: &str) -> Result<ElementType, String> {
    let mut all = ElementType::ALL.into_iter();
    all.find(|element| element.to_string() == text)
        .ok_or_else(|| "no such type".into())
}

fn operation(text: &str) -> Result<ReduceOp, String> {
    let mut all = OPERATIONS.into_iter();
    all.find(|op| op.to_string() == text)
        .ok_or_else(|| "no such operation".into())
}

/// Where checksums are sent, by name.
const CHECKSUMS: [(&str, Checksums); 3] = [
    ("never", Checksums::Never),
    ("between-machines", Checksums::BetweenMachines),
    ("always", Checksums::Always),
];

fn checksums(text: &str) -> Result<Checksums, String> {
    let known = CHECKSUMS.into_iter().find(|(name, _)| *name == text);
    known
        .map(|(_, on)| on)
        .ok_or_else(|| "no such choice of lanes".into())
}

fn compression(text: &str) -> Result<Compression, String> {
    let mut all = COMPRESSIONS.into_iter();
    all.find(|compression| compression.name == text)
        .ok_or_else(|| "no such quantization".into())
}

fn algorithm(text: &str) -> Result<Algorithm, String> {
    let mut all = Algorithm::ALL.into_iter();
    all.find(|algorithm| algorithm.to_string() == text)
        .ok_or_else(|| "no such algorithm".into())
}

fn concurrent(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|concurrent| (1..=1024).contains(concurrent))
        .ok_or_else(|| "from 1 to 1024".into())
}
