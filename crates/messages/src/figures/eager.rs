//! Size limit of eager messages, as reported by an MPI_T control variable of the library layer that transfers the
//! messages.
//!
//! Open MPI has `btl_NAME_eager_limit` for the transport that its ob1 layer uses. A message that exceeds this limit
//! together with the layer's header waits for the receiver. MPICH has a variable of its device. If the device leaves
//! the choice to a lower layer, as it usually does, the limit is unknown.

use crate::config::MpiConfig;
use crate::curve::EagerLimit;

/// Devices of MPICH, with the names of their eager-limit variables.
const DEVICES: [(&str, &str); 3] = [
    ("ch4:ofi", "MPIR_CVAR_CH4_OFI_EAGER_MAX_MSG_SIZE"),
    ("ch3:nemesis", "MPIR_CVAR_NEMESIS_SHM_EAGER_MAX_SZ"),
    ("ch3:sock", "MPIR_CVAR_CH3_EAGER_MAX_MSG_SIZE"),
];

/// Returns the eager limit of an MPI with this configuration, from the control variables that a rank printed. Returns
/// `None` if the MPI has no limit, has different limits for several transports, or leaves the choice to another layer
/// (a negative value).
pub(crate) fn eager_limit(mpi: &MpiConfig, variables: &[(String, i64)]) -> Option<EagerLimit> {
    let variable = match (&mpi.transport, &mpi.device) {
        (Some(transport), None) => {
            let way = transport.strip_prefix("pml ob1, btl ").filter(|way| !way.contains(','))?;
            format!("btl_{way}_eager_limit")
        }
        (_, Some(device)) => DEVICES.iter().find(|(name, _)| name == device)?.1.to_owned(),
        _ => return None,
    };
    let (_, value) = variables.iter().find(|(name, _)| *name == variable)?;
    let bytes = u64::try_from(*value).ok().filter(|bytes| *bytes > 0)?;
    Some(EagerLimit { bytes, variable })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(transport: Option<&str>, device: Option<&str>) -> Option<(u64, String)> {
        let mpi = MpiConfig {
            transport: transport.map(str::to_owned),
            device: device.map(str::to_owned),
            ..MpiConfig::default()
        };
        // Values that Open MPI 4.1.4 and MPICH 4.0.2 report.
        let variables = [
            ("btl_tcp_eager_limit", 65_536),
            ("btl_vader_rndv_eager_limit", 32_768),
            ("btl_vader_eager_limit", 4096),
            ("MPIR_CVAR_NEMESIS_SHM_EAGER_MAX_SZ", -1),
            ("MPIR_CVAR_CH3_EAGER_MAX_MSG_SIZE", 131_072),
            ("MPIR_CVAR_CH4_OFI_EAGER_MAX_MSG_SIZE", -1),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value));
        eager_limit(&mpi, &variables).map(|limit| (limit.bytes, limit.variable))
    }

    #[test]
    fn eager_limit_is_read_from_variable() {
        let vader = Some((4096, "btl_vader_eager_limit".to_owned()));
        assert_eq!(reported(Some("pml ob1, btl vader"), None), vader);
        let tcp = Some((65_536, "btl_tcp_eager_limit".to_owned()));
        assert_eq!(reported(Some("pml ob1, btl tcp"), None), tcp);
        let sock = Some((131_072, "MPIR_CVAR_CH3_EAGER_MAX_MSG_SIZE".to_owned()));
        assert_eq!(reported(None, Some("ch3:sock")), sock);
    }

    #[test]
    fn eager_limit_of_other_transports_is_unknown() {
        for transport in ["pml ob1, btl vader, btl tcp", "pml ucx", "pml ob1, btl sm", "pml ob1"] {
            assert_eq!(reported(Some(transport), None), None, "{transport}");
        }
        for device in ["ch4:ofi", "ch3:nemesis", "ch4:ucx"] {
            assert_eq!(reported(Some("ucx sysv/memory"), Some(device)), None, "{device}");
        }
        assert_eq!(reported(None, None), None);
    }
}
