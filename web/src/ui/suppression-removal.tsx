/** Removes suppressions that others may change or remove at the same time. */
import type { ReactNode } from 'react';
import type { Suppression } from '../../../sdk/src/api.ts';
import { ApiError } from '../api/client.ts';
import { type Api, useApi } from '../api/scope.ts';
import { absoluteTime } from '../lib/time.ts';
import { SharedAction, type SharedActionProps } from './shared-action.tsx';
import type { Fields } from './shared-change.tsx';

const CHANGES: Fields<Suppression> = {
  reason: ['Reason', (reason) => reason.replaceAll('_', ' ')],
  created_at: ['Since', absoluteTime],
  expires_at: ['Until', (at) => (at === null ? 'it is removed' : absoluteTime(at))],
};

export function SuppressionRemoval(
  props: Pick<SharedActionProps<Suppression>, 'action' | 'onSome' | 'onDone' | 'children'> & {
    rows: readonly Suppression[];
  },
): ReactNode {
  const { rows, ...rest } = props;
  const api = useApi();
  return (
    <SharedAction
      {...rest}
      look="danger"
      objects={rows}
      nameOf={({ address }) => address}
      of={({ address }) => ({ target_id: address })}
      changes={CHANGES}
      act={({ address }, headers) => api.call('deleteSuppression', { path: { address }, headers })}
      read={({ address }) => find(api, address)}
    />
  );
}

async function find(api: Api, address: string): Promise<Suppression | undefined> {
  try {
    return await api.call('getSuppression', { path: { address } });
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return undefined;
    throw error;
  }
}
