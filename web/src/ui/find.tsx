import { useNavigate } from '@tanstack/react-router';
import { Search } from 'lucide-react';
import { type ReactNode, useRef } from 'react';
import { useShortcuts } from '../lib/keys.ts';
import { INPUT, textOf } from './field.tsx';

/**
 * A search field for `q` in the address of the page. The key `/` focuses it.
 * @param props.label names the field, and is its placeholder with an ellipsis
 * @param props.onFind replaces the default, which sets `q`
 */
export function Find(props: {
  label: string;
  q?: string | undefined;
  onFind?: (text: string) => void;
  /** Replaces the margins and the line below it, where it stands in a row of controls. */
  className?: string;
}): ReactNode {
  const { label, q = '', className = 'border-b border-line px-(--page-x) py-2' } = props;
  const navigate = useNavigate();
  const field = useRef<HTMLInputElement>(null);
  useShortcuts([{ keys: '/', label, run: () => field.current?.focus() }]);
  const show = (text: string): void => {
    const searched = { q: text.trim() || undefined };
    void navigate({ to: '.', params: true, search: (all) => ({ ...all, ...searched }) });
  };
  const find = props.onFind ?? show;
  return (
    <form
      key={q}
      role="search"
      className={`shrink-0 ${className}`}
      onSubmit={(event) => {
        event.preventDefault();
        find(textOf(new FormData(event.currentTarget), 'q'));
      }}
    >
      <div className="relative">
        <Search
          size={14}
          aria-hidden
          className="absolute top-1/2 left-2.5 -translate-y-1/2 text-muted"
        />
        <input
          ref={field}
          name="q"
          type="search"
          aria-label={label}
          placeholder={`${label}…`}
          defaultValue={q}
          // The clear button of the field does not submit.
          onChange={(event) => event.target.value === '' && q !== '' && find('')}
          onKeyDown={(event) => event.key === 'Escape' && event.currentTarget.blur()}
          className={`${INPUT} pl-8`}
        />
      </div>
    </form>
  );
}
