/** The filter above the deliveries of a webhook. The address of the page has all of it. */
import { useQueryClient } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { type ReactNode } from 'react';
import type { Webhook } from '../../../../sdk/src/api.ts';
import { ApiError } from '../../api/client.ts';
import { useApi } from '../../api/scope.ts';
import { retryDelayMs, retryRead } from '../../api/stream/connection.ts';
import { Button } from '../../ui/button.tsx';
import { Find } from '../../ui/find.tsx';
import { InlineSelect } from '../../ui/select.tsx';
import {
  CODES,
  type FilterSearch,
  isFiltered,
  PERIODS,
  STATUSES,
  typedText,
  TYPES,
} from './delivery-filter.ts';

const ROUTE = '/$project/$environment/webhooks/$id';

export function FilterBar(props: { webhook: Webhook; show: (id: string) => void }): ReactNode {
  const search = useSearch({ from: ROUTE });
  const set = useSetFilter();
  const find = useFindDelivery(props.webhook.id);
  /** The id of a delivery opens it. Any other id is that of an email. */
  const findText = async (text: string): Promise<void> => {
    const id = await find(text);
    if (id === null) set({ q: text.trim() });
    else props.show(id);
  };
  return (
    <div className="flex flex-wrap items-center gap-2 border-b border-line px-(--page-x) py-2">
      <Find
        className="min-w-0 grow basis-72"

        label="Search recipient, email id or delivery id"
        q={search.q}
        onFind={(text) => void findText(text)}
      />
      <div className="flex flex-wrap items-center gap-2">
        {choicesOf(search).map(({ label, name, options }) => (
          <InlineSelect
            key={name}
            label={label}
            options={options}
            value={search[name] ?? ''}
            onChange={(value) => set({ [name]: value })}
          />
        ))}
        {isFiltered(search) && (
          <Button
            look="quiet"
            onClick={() => set({ status: '', type: '', code: '', period: '', q: '' })}
          >
            Clear filter
          </Button>
        )}
      </div>
    </div>
  );
}

type Choice = {
  label: string;
  name: Exclude<keyof FilterSearch, 'q'>;
  options: readonly (readonly [string, string])[];
};

/** The page of failures links to one status, which is then one of the choices. */
function choicesOf({ code = '' }: FilterSearch): readonly Choice[] {
  const isOneCode = code !== '' && !CODES.some(([one]) => one === code);
  return [
    { label: 'Status', name: 'status', options: STATUSES },
    { label: 'Response', name: 'code', options: isOneCode ? [...CODES, [code, code]] : CODES },
    { label: 'Event', name: 'type', options: TYPES },
    { label: 'Time', name: 'period', options: PERIODS },
  ];
}

function useSetFilter(): (change: FilterSearch) => void {
  const navigate = useNavigate();
  return (change) => {
    const entries = Object.entries(change).map(([name, value]) => [name, value || undefined]);
    const changed = Object.fromEntries(entries) as FilterSearch;
    void navigate({
      to: '.',
      params: true,
      search: (all) => ({ ...all, ...changed }),
      replace: true,
    });
  };
}

/** Returns the id of a delivery of the webhook when the text is one. */
function useFindDelivery(webhookId: string): (text: string) => Promise<string | null> {
  const api = useApi();
  const cache = useQueryClient();
  return async (text) => {
    const typed = typedText(text);
    if (typed === null || !('id' in typed)) return null;
    try {
      const path = { id: webhookId, delivery_id: typed.id };
      // In an outage it is read when the service can be reached again.
      const query = api.query('getWebhookDelivery', { path });
      return (await cache.fetchQuery({ ...query, retry: retryRead, retryDelay: retryDelayMs })).id;
    } catch (error) {
      if (error instanceof ApiError) return null;
      throw error;
    }
  };
}
