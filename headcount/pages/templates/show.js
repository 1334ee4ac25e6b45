// The page of one text: its attention is part of the page.

looking.attention = data.attention;
document.getElementById("grids").replaceChildren(...buildGrids());
paintGrids();
chooseHead(data.head);
