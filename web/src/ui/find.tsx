import { useNavigate } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { Search } from 'lucide-react';
import { INPUT, textsOf } from './field.tsx';

/** A search whose text is `q` in the address of the page. */
export function Find({ label, q = '' }: { label: string; q?: string | undefined }): ReactNode {
  const navigate = useNavigate();
  const find = (text: string): void =>
    void navigate({
      to: '.',
      params: true,
      search: (all) => ({ ...all, q: text.trim() || undefined }),
    });
  return (
    <form
      key={q}
      role="search"
      className="relative border-b border-line p-2"
      onSubmit={(event) => {
        event.preventDefault();
        find(textsOf(new FormData(event.currentTarget))['q'] ?? '');
      }}
    >
      <Search size={14} aria-hidden className="absolute top-4.25 left-4.5 text-muted" />
      <input
        name="q"
        type="search"
        aria-label={label}
        placeholder={label}
        defaultValue={q}
        // The cross of the field empties it without submitting.
        onChange={(event) => event.target.value === '' && q !== '' && find('')}
        className={`${INPUT} pl-8`}
      />
    </form>
  );
}
