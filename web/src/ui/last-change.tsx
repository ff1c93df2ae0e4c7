/** Who changed a setting last, beside the setting. Shows nothing to members who may not read the audit log. */
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { findLastChange } from '../api/last-change.ts';
import { useApi } from '../api/scope.ts';
import { useMay } from './allowed.tsx';
import { Time } from './time.tsx';

/** @param props.of id of the object, as in the audit log */
export function LastChange({ of }: { of: string }): ReactNode {
  return useLastChange(of);
}

/** The same, or null, for a place that is empty without it. */
export function useLastChange(of: string): ReactNode {
  const api = useApi();
  const may = useMay()('listAuditEvents');
  const { data: last } = useQuery({
    queryKey: [...api.key, '/v1/audit_log', 'last', of],
    queryFn: () => findLastChange(api, { target_id: of }),
    enabled: may,
  });
  if (!last) return null;
  return (
    <p className="text-sm break-words text-muted">
      Last change by {last.by}, <Time at={last.at} />.{' '}
      <Link
        to="/$project/$environment/audit-log"
        params={api.scope}
        search={{ target: of }}
        className="link"
      >
        All changes
      </Link>
    </p>
  );
}
