/** The filter above the deliveries of a webhook. The address of the page has all of it. */
import { useNavigate, useSearch } from '@tanstack/react-router';
import { type ReactNode } from 'react';
import type { Webhook } from '../../../../sdk/src/api.ts';
import { ApiError } from '../../api/client.ts';
import { useApi } from '../../api/scope.ts';
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
  const { webhook, show } = props;
  const api = useApi();
  const navigate = useNavigate();
  const search = useSearch({ from: ROUTE });
  const { status = '', type = '', code = '', period = '', q } = search;
  const set = (change: FilterSearch): void => {
    const changed = Object.entries(change).map(([name, value]) => [name, value || undefined]);
    void navigate({
      to: '.',
      params: true,
      search: (all) => ({ ...all, ...Object.fromEntries(changed) }),
      replace: true,
    });
  };
  /** The id of a delivery opens it. Any other id is that of an email. */
  const find = async (text: string): Promise<void> => {
    const typed = typedText(text);
    if (typed !== null && 'id' in typed) {
      try {
        const path = { id: webhook.id, delivery_id: typed.id };
        await api.call('getWebhookDelivery', { path });
        return show(typed.id);
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
      }
    }
    set({ q: text.trim() });
  };
  const isOneCode = code !== '' && !CODES.some(([one]) => one === code);
  return (
    <div className="border-b border-line">
      <Find
        label="Recipient, or id of an email or delivery"
        q={q}
        onFind={(text) => void find(text)}
      />
      <div className="flex flex-wrap items-center gap-2 px-(--page-x) py-2">
        <InlineSelect
          label="Status"
          options={STATUSES}
          value={status}
          onChange={(value) => set({ status: value })}
        />
        <InlineSelect
          label="Response"
          options={isOneCode ? [...CODES, [code, code]] : CODES}
          value={code}
          onChange={(value) => set({ code: value })}
        />
        <InlineSelect
          label="Event"
          options={TYPES}
          value={type}
          onChange={(value) => set({ type: value })}
        />
        <InlineSelect
          label="Time"
          options={PERIODS}
          value={period}
          onChange={(value) => set({ period: value })}
        />
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
